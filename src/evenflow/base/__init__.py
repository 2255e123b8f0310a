"""Names, durations and seeded randomness. Standard library only."""
