"""Feasible input tables (Staying FIT, section 6): made at the leaves, mapped and merged upstream."""
