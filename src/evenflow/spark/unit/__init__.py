"""One unit at work: its batches, its counts, its checkpoint."""
