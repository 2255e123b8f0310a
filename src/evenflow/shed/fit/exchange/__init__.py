"""Tables by messages between neighbours: the cores of `d-fit`, one for each node."""
