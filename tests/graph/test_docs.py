"""docs/sql.md says what the catalogue says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.graph.sample import sample_graph

from evenflow.errors import QueryError
from evenflow.graph.parse import MAX_BRANCHES, MAX_ITEMS, MAX_JOINS
from evenflow.graph.steps import MAX_OPERATORS
from evenflow.graph.tokens import MAX_DEPTH, MAX_TEXT, MAX_TOKENS
from evenflow.model.functions import AGGREGATES, FUNCTIONS, TRUNCATE_UNITS

PAGE = Path(__file__).parents[2] / "docs" / "sql.md"


def function_table() -> str:
    """Return the table of functions as the page has it."""
    rows = [f"| `{f.form.replace('|', chr(92) + '|')}` | {f.result} |" for f in FUNCTIONS.values()]
    return "\n".join(["| written | type |", "|---|---|", *rows])


def aggregate_table() -> str:
    """Return the table of aggregates as the page has it."""
    rows = [f"| `{a.form}` | {a.result} |" for a in AGGREGATES.values()]
    return "\n".join(["| written | type |", "|---|---|", *rows])


@pytest.mark.parametrize(
    "table", [function_table(), aggregate_table()], ids=["scalar", "aggregate"]
)
def test_the_page_has_the_table_of_the_catalogue(table: str) -> None:
    assert table in PAGE.read_text()


@pytest.mark.parametrize(
    "limit", [MAX_TEXT, MAX_TOKENS, MAX_DEPTH, MAX_ITEMS, MAX_JOINS, MAX_BRANCHES, MAX_OPERATORS]
)
def test_the_page_has_the_limits(limit: int) -> None:
    assert f"| {limit:,} |" in PAGE.read_text()


def test_the_page_has_the_units_of_date_trunc() -> None:
    units = ", ".join(sorted(set(TRUNCATE_UNITS.values())))
    found = re.search(r"units are\s+([\w, \n]+)\.", PAGE.read_text())
    assert found is not None
    assert ", ".join(sorted(re.split(r",\s+", found[1]))) == units


def test_the_query_of_the_page_is_accepted() -> None:
    found = re.search(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    assert sample_graph().add_sql("q", found[1])["q"].schema.names == ("meter", "hour", "kwh")


def test_every_function_of_the_page_that_is_refused_is_refused() -> None:
    for name in ("reflect", "java_method", "input_file_name", "rand", "current_timestamp"):
        assert name in PAGE.read_text()
        with pytest.raises(QueryError) as caught:
            sample_graph().add_sql("q", f"SELECT {name}() AS x FROM readings")
        assert caught.value.code == "function.unknown"
