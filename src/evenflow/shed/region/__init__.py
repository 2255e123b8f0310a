"""Plans made ahead for all rates: a region quadtree over the rate space (section 5)."""
