"""Units become DataFrames: expressions, the trunk, the stack, and answers out of it."""
