"""Schemas and their DDL."""

from __future__ import annotations

import pytest

from evenflow.errors import ConfigError
from evenflow.model import types as t
from evenflow.model.schema import parse_schema, parse_type


def test_a_schema_reads_back_what_it_writes() -> None:
    schema = parse_schema("id BIGINT, `odd name` STRING, at STRUCT<x: INT, y: DECIMAL(5,2)>")
    assert parse_schema(schema.ddl()) == schema


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("long", t.BIGINT),
        ("Decimal", t.DecimalType(10, 0)),
        ("NUMERIC(12)", t.DecimalType(12, 0)),
        ("DECIMAL(38,38)", t.DecimalType(38, 38)),
        ("STRUCT<a: STRUCT<b: DATE>>", None),
    ],
)
def test_types_have_the_names_of_spark(text: str, type_: t.DataType | None) -> None:
    found = parse_type(text)
    assert type_ is None or found == type_


@pytest.mark.parametrize(
    "text",
    [
        "",
        "id",
        "id BIGINT,",
        "id BIGINT, ID STRING",
        "id FLOAT",
        "id ARRAY<INT>",
        "id DECIMAL(39,0)",
        "id DECIMAL(5,6)",
        "id DECIMAL(99999,0)",
        "id BIGINT) x",
        "s STRUCT<a: INT",
        "s " + "STRUCT<a: " * 30,
        "id BIGINT; DROP",
        "x" * 100_001,
    ],
)
def test_what_is_not_a_schema_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_schema(text)


def test_columns_are_found_in_any_case() -> None:
    found = parse_schema("Id BIGINT").find("iD")
    assert found is not None
    assert found.name == "Id"
