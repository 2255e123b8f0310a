"""The view of a surge: lines, bars, and the table that updates in place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from tests.cli.demo.acting import DECISIONS, NAMES, QUERIES, moment

from evenflow.cli.demo.live import (
    BAR,
    Lines,
    bar,
    decision_line,
    head,
    header_line,
    moment_line,
    moment_view,
    shown_surge,
)


@given(st.floats(0, 1), st.booleans())
def test_a_bar_is_full_or_empty_only_if_the_share_is(share: float, blocks: bool) -> None:
    drawn = bar(share, blocks=blocks)
    full = drawn.count("█" if blocks else "#")
    assert len(drawn) == BAR
    assert (full == BAR) == (share == 1)
    assert (full == 0) == (share == 0)
    assert abs(full / BAR - share) <= 1 / BAR


def test_shares_stand_below_their_names() -> None:
    header, line = header_line(QUERIES), moment_line(moment(15.0), QUERIES)
    assert len(line) == len(header)
    for name, share in (("billing", "100%"), ("research", "0%"), ("dashboard", "50%")):
        end = header.index(name) + len(name)
        assert line[:end].endswith(share.rjust(len(name)))
    assert "SURGE" in line
    assert "3.3x" in line
    assert "10,000" in line


def test_a_moment_without_numbers_has_dashes() -> None:
    empty = moment(1.0, rows=None, load_without_gates=None, ages={}, answered={})
    assert moment_line(empty, QUERIES).split()[:5] == ["calm", "0:01", "-", "-", "-"]
    assert "warming up" in head(moment(1.0, rows=None))


def test_there_is_a_line_per_second_and_one_per_decision(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = Lines(QUERIES)
    for half in range(80):
        lines.moment(moment(half / 2 + 0.1))
    lines.decision(DECISIONS[0])
    said = capsys.readouterr().err.splitlines()
    assert sum(line.startswith("phase") for line in said) == 2
    assert len(said) == 40 + 2 + 1
    assert said[-1].endswith("shed: 10,000 rows/s arrive, 3.3 times what fits: research keeps 0%")


def test_a_line_after_a_long_silence_does_not_bring_all_that_were_missed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = Lines(QUERIES)
    for seconds in (1.0, 9.0, 9.2, 9.4):
        lines.moment(moment(seconds))
    assert len(capsys.readouterr().err.splitlines()) == 1 + 2


def test_control_characters_of_a_reason_do_not_reach_the_terminal() -> None:
    line = decision_line({**DECISIONS[0], "why": "a\x1b[2Jb"})
    assert "\x1b" not in line


@pytest.mark.parametrize("width", [80, 60])
def test_the_view_fits_narrow_terminals(width: int) -> None:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(moment_view(moment(15.0), QUERIES, blocks=True))
    lines = capture.get().splitlines()
    assert max(map(len, lines)) <= width
    for name in NAMES:
        assert any(line.startswith(name) for line in lines)
    assert any(line.startswith("SURGE 0:15  10,000 rows/s in, 3,000 fit") for line in lines)


def test_the_view_says_what_load_would_be_without_gates_only_if_some_are_shut() -> None:
    assert "without gates" in head(moment(15.0))
    assert "without gates" not in head(moment(5.0))
    assert head(moment(15.0, load=None)).endswith("3,000 fit")


def test_scripts_are_shown_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    for quiet, shows in ((True, False), (False, True)):
        with shown_surge(QUERIES, quiet=quiet) as view:
            view.moment(moment(1.0))
            view.decision(DECISIONS[0])
        assert bool(capsys.readouterr().err) == shows
