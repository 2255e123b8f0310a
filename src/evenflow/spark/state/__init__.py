"""What a flow keeps on disk: who holds it, what it is, how it stood."""
