"""`evenflow shed`: networks, plans and their files."""
