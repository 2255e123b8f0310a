"""Records on disk: whole, torn, too many, of another version."""

from __future__ import annotations

import json
import resource
from typing import TYPE_CHECKING

import pytest

from evenflow.control import journal as journal_module
from evenflow.control.decision import Act, Decision, Outcome
from evenflow.control.journal import FILE, Journal, read_decisions
from evenflow.errors import StateError

if TYPE_CHECKING:
    from pathlib import Path


def decision(number: int) -> dict[str, object]:
    return Decision(
        number=number,
        at=100.0 + number,
        act=Act.SHED,
        keep={"a": 0.5},
        before={},
        facts={"load": 2.0},
        why="too much",
        expected={"load": 1.0},
    ).as_json()


def outcome(number: int, **told: object) -> dict[str, object]:
    return Outcome(number=number, at=101.0, **{"applied": True, **told}).as_json()  # type: ignore[arg-type]


def test_decisions_come_back_with_their_outcomes(tmp_path: Path) -> None:
    written = Journal(tmp_path)
    written.write(decision(1))
    written.write(outcome(1))
    written.write(decision(2))
    written.write(outcome(1, measured={"load": 0.9}))
    written.write(outcome(2, applied=False, reason="refused"))
    written.write(outcome(7))
    first, second = read_decisions(tmp_path)
    assert (first["decision"], first["applied"], first["measured"]) == (1, True, {"load": 0.9})
    assert (second["applied"], second["reason"]) == (False, "refused")
    assert Journal(tmp_path).last_number() == 2


def test_a_torn_last_line_is_left_out_and_written_behind(tmp_path: Path) -> None:
    Journal(tmp_path).write(decision(1))
    with (tmp_path / FILE).open("a") as handle:
        handle.write('{"evenflow": 1, "decision": 2, "at"')
    assert [d["decision"] for d in read_decisions(tmp_path)] == [1]
    Journal(tmp_path).write(decision(3))
    assert [d["decision"] for d in read_decisions(tmp_path)] == [1, 3]


def test_a_disk_that_takes_half_a_record_has_none_of_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.write(decision(1))
    size = (tmp_path / FILE).stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 40, before[1]))
    try:
        with pytest.raises(OSError, match="half a record"):
            journal.write(decision(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (tmp_path / FILE).stat().st_size == size
    journal.write(decision(3))
    assert [d["decision"] for d in read_decisions(tmp_path)] == [1, 3]


def test_a_record_is_there_although_older_ones_cannot_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journal_module, "MOST_LINES", 2)
    monkeypatch.setattr(Journal, "_shorten", full)
    journal = Journal(tmp_path)
    for number in range(1, 5):
        journal.write(decision(number))
    assert len(read_decisions(tmp_path)) == 4


def test_old_records_give_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "MOST_LINES", 10)
    written = Journal(tmp_path)
    for number in range(1, 100):
        written.write(decision(number))
    kept = [d["decision"] for d in read_decisions(tmp_path)]
    assert kept[-1] == 99
    assert 5 <= len(kept) <= 10
    assert Journal(tmp_path).last_number() == 99


def test_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(json.dumps({"evenflow": 2, "decision": 1}) + "\n")
    with pytest.raises(StateError) as caught:
        read_decisions(tmp_path)
    assert caught.value.code == "state.invalid"


def test_no_records_are_no_decisions(tmp_path: Path) -> None:
    assert read_decisions(tmp_path) == []
    assert Journal(tmp_path).last_number() == 0
