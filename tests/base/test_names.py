"""Names that users give."""

from __future__ import annotations

import pytest

from evenflow.base.names import check_name
from evenflow.errors import ConfigError


@pytest.mark.parametrize("name", ["a", "_x", "heavy-load", "Q2", "a" * 64])
def test_letters_digits_and_two_signs_are_allowed(name: str) -> None:
    assert check_name("query", name) == name


@pytest.mark.parametrize("name", ["", "1a", "-a", "a b", "a.b", "../x", "a\n", "é", "a" * 65, None])
def test_everything_else_is_refused(name: object) -> None:
    with pytest.raises(ConfigError):
        check_name("query", name)
