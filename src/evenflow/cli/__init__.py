"""The command line and the files it reads. Parses, prints, and maps errors to exit codes."""
