"""`python -m evenflow`."""

from __future__ import annotations

from evenflow.cli.main import main

if __name__ == "__main__":
    main()
