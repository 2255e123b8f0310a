"""The continuous-query graph: SQL and builder, bound to operators that queries share."""
