"""Plans by linear programming: the optimum for given rates, by a solver or by bases met so far."""
