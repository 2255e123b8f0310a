"""docs/glossary.md has the words of the code, and no others."""

from __future__ import annotations

import re

import pytest
from tests.architecture.tree import ROOT, SOURCE, source_files

from evenflow.cli.flow_model import FlowModel, QueryModel, SinkModel, SourceModel, TableModel
from evenflow.cli.shed.network_model import (
    NetworkModel,
    NetworkOperatorModel,
    NetworkQueryModel,
    NodeModel,
    RateModel,
)
from evenflow.model import operator
from evenflow.model.operator import EventTime, Shed, State
from evenflow.model.query import OnError
from evenflow.model.unit import Kind
from evenflow.shed.element import OperatorKind
from evenflow.shed.method import METHODS

GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([^|]+) \|([^|]+)\|", GLOSSARY, re.MULTILINE)
WORDS = {word.strip("` ") for row, _ in ROWS for word in re.split(r"[,/]", row)} - {"word", "---"}


def _operator_kinds() -> set[str]:
    kinds = (getattr(value, "kind", None) for value in vars(operator).values())
    return {kind for kind in kinds if isinstance(kind, str)}


@pytest.mark.parametrize("kind", sorted(_operator_kinds()))
def test_every_kind_of_operator_is_explained(kind: str) -> None:
    assert kind in WORDS


@pytest.mark.parametrize(
    "value",
    [each for group in (Kind, State, Shed, EventTime, OnError, OperatorKind) for each in group],
)
def test_every_named_choice_is_explained(
    value: Kind | State | Shed | EventTime | OnError | OperatorKind,
) -> None:
    assert re.search(rf"\b{value.value}\b", GLOSSARY)


@pytest.mark.parametrize(
    "package", sorted(p.name for p in SOURCE.iterdir() if (p / "__init__.py").is_file())
)
def test_every_package_is_explained(package: str) -> None:
    assert f"`{package}`" in GLOSSARY


@pytest.mark.parametrize(
    "model", [FlowModel, SourceModel, TableModel, QueryModel, SinkModel], ids=lambda m: m.__name__
)
def test_every_key_of_the_flow_file_is_explained(
    model: type[FlowModel | SourceModel | TableModel | QueryModel | SinkModel],
) -> None:
    page = (ROOT / "docs" / "flow-file.md").read_text(encoding="utf-8")
    names = {field.alias or name for name, field in model.model_fields.items()}
    assert {name for name in names if f"`{name}`" not in page} == set()


@pytest.mark.parametrize(
    "model",
    [NetworkModel, NodeModel, NetworkOperatorModel, NetworkQueryModel, RateModel],
    ids=lambda m: m.__name__,
)
def test_every_key_of_the_network_file_is_explained(
    model: type[NetworkModel | NodeModel | NetworkOperatorModel | NetworkQueryModel | RateModel],
) -> None:
    page = (ROOT / "docs" / "shedding.md").read_text(encoding="utf-8")
    assert {name for name in model.model_fields if f"`{name}`" not in page} == set()


@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_method_is_explained(method: str) -> None:
    assert f"`{method}`" in (ROOT / "docs" / "shedding.md").read_text(encoding="utf-8")
    assert f"`{method}`" in GLOSSARY


@pytest.mark.parametrize("word", sorted(WORDS))
def test_every_word_is_used_in_the_code(word: str) -> None:
    pattern = re.compile(re.escape(word).replace("\\ ", r"[\s_-]*"), re.IGNORECASE)
    assert any(pattern.search(path.read_text(encoding="utf-8")) for path in source_files())
