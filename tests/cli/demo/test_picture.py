"""The picture of a surge."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from tests.cli.demo.acting import NAMES, moment, played

from evenflow.cli.demo.picture import draw, write_picture
from evenflow.cli.demo.report import surge_report

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow
def test_a_picture_names_every_query_and_is_always_the_same(tmp_path: Path) -> None:
    report = surge_report(played())
    drawn = draw(report)
    assert drawn == draw(report)
    text = drawn.decode()
    ET.fromstring(text)
    for name in (*NAMES, "deadline, 5 s", "fit with all gates open"):
        assert f"<!-- {name}" in text
    write_picture(tmp_path / "surge.png", report)
    assert (tmp_path / "surge.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_surge_of_which_little_is_known_is_drawn_too() -> None:
    bare = moment(3.0, rows=None, fitting=None, ages={}, answered={})
    report = surge_report(played(moments=[bare, bare], decisions=[]))
    assert b"<!-- a surge -->" in draw(report)
