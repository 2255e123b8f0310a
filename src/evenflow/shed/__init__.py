"""Which tuples to drop when load does not fit: networks, plans and indexes of plans. Pure."""
