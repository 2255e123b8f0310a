"""How tests are spread over processes, and what is said of them at the end."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

TALLY = "tally"
"""A test records under this name what it is one of; the end of a run says how many there were."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With several processes, keep the tests of a file in one, unless each of them stands alone."""
    for item in items:
        if not getattr(getattr(item, "module", None), "EACH_ALONE", False):
            item.add_marker(pytest.mark.xdist_group(str(item.path)))


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Say how many random cases passed."""
    passed = Counter(
        value
        for report in terminalreporter.stats.get("passed", ())
        for name, value in report.user_properties
        if name == TALLY
    )
    for what, count in sorted(passed.items()):
        terminalreporter.write_line(f"{count} {what} passed")
