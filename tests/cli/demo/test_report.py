"""What is reported of a surge, and what the tables and sentences make of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.cli.demo.acting import DECISIONS, NAMES, SHUT, counts, decision, moment, played

from evenflow.cli.demo.report import surge_report
from evenflow.cli.demo.text import counts_text, queries_text, report_text, sentences


def test_shares_are_of_what_came_until_gates_were_open() -> None:
    report = surge_report(played())
    kept = {name: query["kept_in_surge"] for name, query in report["queries"].items()}
    assert kept["research"] == 0.0
    assert kept["theft"] == pytest.approx(1 - 150_000 / 203_000, abs=1e-4)
    assert kept["dashboard"] == 0.5
    assert {kept[name] for name in ("billing", "outages", "voltage", "forecast")} == {1.0}
    weights = 2 + 8 + 6 + 1 + 4 + 1 + 0.3
    assert report["value_kept"] == pytest.approx((20 + 0.5 + kept["theft"]) / weights, abs=1e-3)


def test_capacity_times_and_costs() -> None:
    report = surge_report(played())
    assert report["capacity_rows_per_second"] == 3000
    assert report["times_capacity"] == 3.33
    assert report["queries"]["research"]["cost_us"] == 40.0
    assert (report["gates_shut_after_seconds"], report["gates_open_after_seconds"]) == (1.0, 3.0)
    json.dumps(report)


def test_the_capacity_is_what_the_loop_knows_at_the_end() -> None:
    moments = [moment(5.0, fitting=1000.0), moment(15.0, fitting=2000.0), moment(35.0, fitting=4e3)]
    assert surge_report(played(moments=moments))["capacity_rows_per_second"] == 4000
    moments = [moment(5.0, fitting=1000.0), moment(35.0, fitting=None)]
    assert surge_report(played(moments=moments))["capacity_rows_per_second"] == 1000
    unknown = surge_report(played(moments=[moment(5.0, fitting=None)]))
    assert unknown["times_capacity"] is None
    assert "times the" not in next(sentences(unknown))


def test_a_deadline_is_held_or_not() -> None:
    late = [moment(12.0, ages=dict.fromkeys(NAMES, 5.5))]
    report = surge_report(played(moments=late))
    held = {name: query["deadline_held"] for name, query in report["queries"].items()}
    assert held["billing"] is False
    assert held["theft"] is None
    assert any("were late for a while; the oldest was 5.5 s of 5 s" in s for s in sentences(report))
    good = surge_report(played())
    assert good["queries"]["billing"]["deadline_held"] is True
    assert any("Deadlines held: the oldest answer was 3.0 s" in s for s in sentences(good))


def test_gates_that_stay_shut_are_told() -> None:
    report = surge_report(played(decisions=DECISIONS[:1]))
    assert report["gates_open_after_seconds"] is None
    assert any("still shut" in each for each in sentences(report))


def test_what_was_not_applied_opens_nothing() -> None:
    refused = [DECISIONS[0], decision(2, 33.0, {}, applied=False)]
    assert surge_report(played(decisions=refused))["gates_open_after_seconds"] is None


def test_decisions_before_the_surge_do_not_count_as_its_own() -> None:
    early = [decision(1, 4.0, SHUT), decision(2, 6.0, {}), decision(3, 12.5, SHUT)]
    assert surge_report(played(decisions=early))["gates_shut_after_seconds"] == 2.5


@pytest.mark.parametrize("field", ["contributed", "filtered", "late", "rejected", "open", "in"])
def test_a_count_that_is_off_by_one_is_noticed(field: str) -> None:
    own = {name: {"counts": counts(0)} for name in NAMES}
    assert surge_report(played(status=_status(own)))["accounted"]
    own["voltage"] = {"counts": {**counts(0), field: counts(0)[field] + 1}}
    report = surge_report(played(status=_status(own)))
    assert not report["accounted"]
    assert any("voltage do NOT add up" in each for each in sentences(report))


def _status(queries: dict[str, Any]) -> dict[str, Any]:
    return {"queries": queries, "control": {"state": "open", "reason": None}}


def test_tables_have_the_queries_in_the_order_in_which_they_give_way() -> None:
    report = surge_report(played())
    for text in (queries_text(report), counts_text(report)):
        lines = text.splitlines()
        assert max(map(len, lines)) <= 80
        names = [line.split()[0] for line in lines[1:]]
        assert names == [
            "research", "theft", "dashboard", "forecast", "voltage", "outages", "billing",
        ]  # fmt: skip


def test_a_line_of_counts_adds_up() -> None:
    for line in counts_text(surge_report(played())).splitlines()[1:]:
        whole, *parts = (int(cell.replace(",", "")) for cell in line.split()[1:])
        assert whole == sum(parts)


def test_sentences_say_who_gave_way_and_why() -> None:
    text = "\n".join(sentences(surge_report(played())))
    assert "research 0%, theft 26% and dashboard 50% (its floor is 25%)." in text
    assert "research weighs 0.3 at 40.0 us per tuple, dashboard weighs 1 at 50.0 us" in text
    assert "forecast, voltage and outages lost nothing: more weight for the cost than" in text
    assert "billing lost nothing, and may not" in text
    assert "All gates were open again 3.0 s after the surge was over." in text
    assert "Every tuple of every query is accounted for" in text


def test_no_reason_is_given_that_is_not_true() -> None:
    # What keeps everything here has less weight for its cost than who gave way.
    own = {name: {"counts": counts(500 if name == "voltage" else 0)} for name in NAMES}
    text = "\n".join(sentences(surge_report(played(status=_status(own)))))
    assert "research, theft, dashboard, forecast and outages lost nothing." in text


def test_if_nobody_gives_way_that_is_all() -> None:
    own = {name: {"counts": counts(0)} for name in NAMES}
    text = "\n".join(sentences(surge_report(played(status=_status(own), decisions=[]))))
    assert "Nobody gave way." in text
    assert "lost nothing" not in text
    assert "ates were" not in text


def test_almost_everything_is_not_called_everything() -> None:
    own = {name: {"counts": counts(500 if name == "voltage" else 0)} for name in NAMES}
    text = "\n".join(sentences(surge_report(played(status=_status(own)))))
    assert "what was kept: voltage 99.75%." in text


def test_a_loop_that_has_died_is_told() -> None:
    status = {**played().status, "control": {"state": "dead", "reason": "KeyError: 'x'"}}
    report = surge_report(played(status=status))
    assert report["loop_died"] == "KeyError: 'x'"
    assert any("KeyError" in each for each in sentences(report))


def test_sentences_fit_the_screen() -> None:
    text = report_text(surge_report(played()), 60)
    story = [line for line in text.splitlines() if line.startswith(("- ", "  "))]
    assert story
    assert max(map(len, story)) <= 60
