"""Feasible input tables (Staying FIT, section 6): made at leaves, mapped and merged upstream."""
