"""Commands, as tests of the command line call them."""

from __future__ import annotations

from tests.cli.conftest import invoke

__all__ = ["invoke"]
