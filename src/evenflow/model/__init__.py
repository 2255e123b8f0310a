"""What exists: types, streams, expressions, operators, queries, units. Frozen data."""
