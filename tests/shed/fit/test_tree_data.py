"""Tables as data: read again they are the same, without being made."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.shed.networks import figure_1, figure_7

from evenflow.errors import NetworkError
from evenflow.shed.fit import tree, tree_data
from evenflow.shed.fit.central import c_fit
from evenflow.shed.fit.coarseness import Trial
from evenflow.shed.fit.fit_method import FitMethodIndex
from evenflow.shed.fit.tree_data import _loss, _packed, _unpacked
from evenflow.shed.plan_index import index_from_data, make_index

if TYPE_CHECKING:
    from evenflow.shed.network import Network
    from evenflow.shed.plan_index import PlanIndex

NETWORKS = {"figure 1": figure_1(), "figure 7": figure_7()}


def made(network: Network, method: str, epsilon: float = 0.05) -> PlanIndex:
    return make_index(network, method, dict.fromkeys(network.inputs, 2.0), epsilon)


def trees(index: PlanIndex) -> list[tree.PlannedTree]:
    parts = [part for part in index.parts if isinstance(part, FitMethodIndex)]
    assert len(parts) == len(index.parts)
    return [each for part in parts for each in part.tables.trees]


def unmakeable(*_: Any) -> None:
    raise AssertionError("a table is made")


@pytest.mark.parametrize("method", ["c-fit", "d-fit"])
@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_what_is_read_is_what_was_made(
    name: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = made(NETWORKS[name], method)
    text = json.dumps(index.data())
    monkeypatch.setattr(tree, "make_table", unmakeable)
    again = index_from_data(json.loads(text))
    for one, other in zip(trees(index), trees(again), strict=True):
        assert (one.root, one.trials) == (other.root, other.trials)
        assert one.terms == other.terms
        for node, table in one.tables.items():
            for field in ("rates", "scores", "flows", "choices"):
                assert np.array_equal(getattr(table, field), getattr(other.tables[node], field))
    draw = random.Random(1)
    for _ in range(200):
        rates = {name: draw.uniform(0, 2) for name in index.network.inputs}
        assert index.select(rates) == again.select(rates)
    assert index.report() == again.report()
    assert json.dumps(again.data()) == text


def test_tables_that_had_to_be_coarser_are_read_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(c_fit.__kwdefaults__ or {}, "most_entries", 30)
    monkeypatch.setattr(tree_data, "MOST_ENTRIES", 30)
    index = made(NETWORKS["figure 1"], "c-fit", 0.01)
    again = index_from_data(json.loads(json.dumps(index.data())))
    (one,), (other,) = trees(index), trees(again)
    assert not one.trials[0].fits
    assert one.terms == other.terms
    assert index.report() == again.report()


def test_trials_of_no_search_are_told() -> None:
    trials = (Trial(loss=0.1, fits=False), Trial(loss=0.1 * 1.5, fits=True))
    with pytest.raises(ValueError, match="no search"):
        _loss(0.1, trials[:1])
    with pytest.raises(ValueError, match="no search"):
        _loss(0.2, trials)
    with pytest.raises(ValueError, match="no search"):
        _loss(0.1, trials)  # the way between the two is to be halved


@pytest.mark.parametrize(
    ("field", "new"),
    [
        ("entries", 0),
        ("entries", 10**9),
        ("entries", True),
        ("flows", "!"),
        ("flows", _packed(np.zeros(1), "<f8")),
        ("flows", _packed(np.full(10**6, 1.0), "<f8")),
        ("scores", _packed(np.zeros(3), "<f8")[:-8]),
    ],
)
def test_numbers_that_are_none_are_told(field: str, new: object) -> None:
    data = json.loads(json.dumps(made(NETWORKS["figure 1"], "c-fit").data()))
    data["parts"][0]["trees"][0]["tables"]["A"][field] = new
    with pytest.raises(NetworkError) as caught:
        index_from_data(data)
    assert caught.value.code == "plans.invalid"


def test_an_entry_of_no_entry_is_told() -> None:
    data = json.loads(json.dumps(made(NETWORKS["figure 1"], "c-fit").data()))
    tables = data["parts"][0]["trees"][0]["tables"]
    shape = (tables["A"]["entries"], 1)
    choices = _unpacked(tables["A"]["choices"], "<u4", shape).copy()
    choices[0] = tables["B"]["entries"]
    tables["A"]["choices"] = _packed(choices, "<u4")
    with pytest.raises(NetworkError) as caught:
        index_from_data(data)
    assert caught.value.code == "plans.invalid"
