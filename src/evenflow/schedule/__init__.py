"""Deciding what runs together: from queries to units, families and slots. Pure."""
