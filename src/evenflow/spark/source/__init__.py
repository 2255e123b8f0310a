"""What streams and tables are read from."""
