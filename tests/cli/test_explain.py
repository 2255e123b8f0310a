"""`explain` in all its formats, and the drawing of graphs."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest
from tests.cli.flows import GOOD, write

from evenflow import Flow, Sink, avg, col, count, sum_
from evenflow.cli.demo.sharing import FLOW as DEMO
from evenflow.cli.flow_file import read_flow
from evenflow.errors import ConfigError
from evenflow.graph.explain import FORMATS, describe, explain
from evenflow.graph.explain.layout import Box, Layout, place
from evenflow.graph.explain.wording import expression_text, operator_text
from evenflow.model.operator import Where

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Invoke

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def flow() -> Flow:
    flow = Flow("metering")
    readings = flow.source("readings", "meters")
    flow.table("sites", data=[], schema="meter STRING, kind STRING")
    strong = readings.where("kwh > 1")
    strong.window("1 hour").by("district").agg(kwh=sum_("kwh")).query("load", sink=Sink("console"))
    hours = strong.window("1 hour", "10 minutes").by("meter").agg(mean=avg("kwh"))
    hours.where(col("mean") > 2).query("means")
    joined = readings.join("sites", on="meter").where("kind = 'shop'").window("1 day").by("kind")
    joined.agg(readings=count()).query("shops")
    flow.sql(
        "weak", "SELECT id, upper(meter) AS m FROM readings WHERE kwh < 0.1 AND meter LIKE 'a%'"
    )
    return flow


def test_each_format_says_what_is_shared_and_what_runs(invoke: Invoke, tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    for format_ in FORMATS:
        result = invoke("explain", path, "--format", format_)
        assert result.exit_code == 0, result.stderr
        assert "heavy" in result.stdout
    report = json.loads(invoke("explain", path, "--json").stdout)
    assert report == json.loads(invoke("explain", path, "--format", "json").stdout)
    shared = {each["text"] for each in report["operators"] if each["shared"]}
    assert shared == {"readings", "kwh > 0.0"}


def test_an_unknown_format_is_refused(flow: Flow) -> None:
    with pytest.raises(ConfigError):
        flow.explain("png")


def test_the_report_names_units_families_and_slots(flow: Flow) -> None:
    report = json.loads(flow.explain("json"))
    assert report["operators_shared"] < report["operators_alone"]
    (source,) = report["sources"]
    assert (source["name"], source["reads_alone"]) == ("readings", 4)
    assert source["reads"] == len(report["units"])
    units = {query: unit for unit in report["units"] for query in unit["queries"]}
    assert units["weak"]["kind"] == "stateless"
    assert units["weak"]["branches"][0]["condition"]["where"] == "kwh < 0.1 AND meter LIKE 'a%'"
    stack = units["load"]
    assert stack["kind"] == "hash"
    members = {
        member["query"]: (family, member)
        for family in stack["families"]
        for member in family["members"]
    }
    family, member = members["load"]
    assert family["window"] == "1 hour"
    assert list(family["keys"].values()) == ["district"]
    assert set(member["slots"]) == {"tuples", "sum(kwh)"}
    assert members["means"][0]["window"] == "1 hour every 10 minutes"
    assert members["means"][1]["having"] == "avg(kwh) > 2.0"
    assert set(stack["spare_slots"]) < set(stack["slots"])


def test_without_units_only_the_graph_is_shown(flow: Flow) -> None:
    assert json.loads(explain(flow.graph, None, "json"))["units"] is None
    assert "units" not in explain(flow.graph)
    for format_ in FORMATS:
        assert explain(flow.graph, None, format_)


def test_text_marks_shared_operators_and_counts_reads(flow: Flow) -> None:
    lines = flow.explain().splitlines()
    assert lines[0].startswith("metering: 4 queries, ")
    assert any(line.startswith("*") and "where kwh > 1.0" in line for line in lines)
    assert any(line.startswith(" ") and "kind = 'shop'" in line for line in lines)
    assert lines[-1].endswith("4 times if every query ran alone")


def test_operators_read_as_people_write_them(flow: Flow) -> None:
    texts = {each.text for each in describe(flow.graph).operators}
    assert "1 hour every 10 minutes by meter: avg(kwh)" in texts
    assert "inner sites ON meter = sites.meter" in texts
    assert "sites.kind = 'shop'" in texts
    assert "1 day by sites.kind: count(*)" in texts
    assert "avg(kwh) > 2.0" in texts


@pytest.mark.parametrize(
    ("sql", "shown"),
    [
        ("2 < kwh", "kwh > 2.0"),
        ("NOT kwh = 2", "kwh <> 2.0"),
        ("meter IS NOT NULL", "meter IS NOT NULL"),
        ("NOT (id > 1 OR id < 0)", "NOT (id < 0 OR id > 1)"),
        ("meter NOT IN ('a', 'b')", "meter NOT IN ('a', 'b')"),
        ("(id + 1) * 2 > 3", "(1 + id) * 2 > 3"),
        ("id - (1 - id) = 0", "id - (1 - id) = 0"),
        ("-id < 3 AND (id = 1 OR id = 2)", "(id = 1 OR id = 2) AND -id < 3"),
        ("ts > TIMESTAMP '2026-01-02 03:04:05'", "ts > TIMESTAMP '2026-01-02 03:04:05'"),
        ("CASE WHEN id = 1 THEN TRUE ELSE FALSE END", "CASE WHEN id = 1 THEN TRUE ELSE FALSE END"),
        ("round(kwh, 1) = 1.5", "round(kwh, 1) = 1.5"),
    ],
)
def test_expressions_read_as_people_write_them(sql: str, shown: str) -> None:
    operator = Flow("f").source("readings", "meters").where(sql).operator
    assert isinstance(operator, Where)
    text = expression_text(operator.predicate)
    again = Flow("f").source("readings", "meters").where(text).operator
    assert again.hash == operator.hash, "the text means something else"
    assert sorted(text.replace("(", " ").replace(")", " ").split()) == sorted(
        shown.replace("(", " ").replace(")", " ").split()
    )


def test_a_function_is_named_without_its_module() -> None:
    def double(frame: Any) -> Any:
        return frame

    readings = Flow("f").source("readings", "meters")
    assert operator_text(readings.apply(double, "id BIGINT").operator) == "double()"


def test_dot_escapes_what_users_write() -> None:
    flow = Flow("f")
    flow.source("r", "meters").where("""meter = 'a"b\\\\c'""").query("q")
    text = flow.explain("dot")
    assert '\\"b' in text
    assert text.startswith('digraph "f" {')
    assert text.endswith("}")


# --- the picture ----------------------------------------------------------------------------------


def _overlaps(boxes: list[tuple[float, float, float, float]]) -> int:
    return sum(
        1
        for (x1, y1, w1, h1), (x2, y2, w2, h2) in itertools.combinations(boxes, 2)
        if x1 < x2 + w2 and x2 < x1 + w1 and y1 < y2 + h2 and y2 < y1 + h1
    )


def test_the_picture_of_twenty_queries_has_no_overlap_and_stays_inside() -> None:
    root = ET.fromstring(read_flow(DEMO).explain("svg"))
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    boxes = []
    for group in root.iter(f"{SVG}g"):
        rectangle = group.find(f"{SVG}rect")
        if rectangle is None:
            continue
        x, y, w, h = (float(rectangle.attrib[k]) for k in ("x", "y", "width", "height"))
        boxes.append((x, y, w, h))
        for text in group.findall(f"{SVG}text"):
            assert text.text is not None
            assert float(text.attrib["x"]) + 6.62 * len(text.text) <= x + w
    assert len(boxes) == 46 + 20
    assert _overlaps(boxes) == 0
    assert max(x + w for x, _, w, _ in boxes) < width
    assert max(y + h for _, y, _, h in boxes) < height


def test_the_picture_escapes_what_users_write() -> None:
    flow = Flow("f")
    flow.source("r", "meters").where("meter = '<b>&\"'").query("q")
    root = ET.fromstring(flow.explain("svg"))
    assert any("<b>" in (text.text or "") for text in root.iter(f"{SVG}text"))


def _crossings(layout: Layout, arrows: list[tuple[str, str]]) -> int:
    ends = [(layout.places[a].y, layout.places[b].y) for a, b in arrows]
    return sum(1 for (a, b), (c, d) in itertools.combinations(ends, 2) if (a - c) * (b - d) < 0)


def test_boxes_lie_right_of_what_feeds_them_and_arrows_do_not_cross_without_need() -> None:
    boxes = [Box(name, 50, 20) for name in ("a", "b", "c", "x", "y", "z")]
    arrows = [("a", "z"), ("b", "y"), ("c", "x")]
    layout = place(boxes, arrows)
    assert all(layout.places[a].x + 50 < layout.places[b].x for a, b in arrows)
    assert _crossings(layout, arrows) == 0


def test_an_arrow_over_several_columns_passes_no_box() -> None:
    boxes = [
        Box("s", 40, 20),
        Box("a", 60, 20),
        Box("b", 80, 20),
        Box("q", 40, 20),
        Box("r", 40, 20),
    ]
    layout = place(boxes, [("s", "a"), ("a", "b"), ("b", "q"), ("s", "r")])
    assert layout.arrows[("s", "a")] == []
    layout = place(
        [*boxes[:4], Box("r", 40, 20, column=-1)], [("s", "a"), ("a", "b"), ("b", "q"), ("s", "r")]
    )
    for left, right, y in layout.arrows[("s", "r")]:
        for box in boxes[1:3]:
            at = layout.places[box.id]
            apart = right < at.x or left > at.x + box.width or abs(y - at.y) >= box.height / 2
            assert apart


def test_a_wide_graph_is_drawn_in_reasonable_time() -> None:
    flow = Flow("wide")
    readings = flow.source("r", "meters")
    for number in range(200):
        readings.where(f"id % {number % 50 + 2} = 0").select("id", n=f"id + {number}").query(
            f"q{number}"
        )
    assert flow.explain("svg").count("<rect") > 400


def test_an_empty_graph_can_be_shown() -> None:
    for format_ in FORMATS:
        assert Flow("f").explain(format_)
