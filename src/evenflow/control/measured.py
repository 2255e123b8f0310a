"""A measured flow as a network file: costs as corrected, selectivities, and how likely rates are.

The loop keeps it in the state directory, so that planners can be tried on a real flow, running or
not. Weights are divided by what each query gives without drops: value then is weight times the
share that is kept, as the loop has it.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from evenflow.control.flow_network import Terms, flow_network
from evenflow.errors import StateError
from evenflow.shed.network_data import network_data
from evenflow.spark.state.sealed import read_sealed, write_sealed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from evenflow.control.model import UnitModel
    from evenflow.control.view import View

FILE = "network.json"
VERSION = 1
"""Of network files."""
STEP = 1.25
"""Bins of rates grow by this."""
DIGITS = 4
"""Of what was measured."""
MOST_LOOKS = 20_000
"""Then older looks count half."""


class RateTrace:
    """How often which rates were seen, by input."""

    def __init__(self) -> None:
        self._seen: dict[str, Counter[int]] = {}

    def see(self, view: View) -> None:
        """Take the rates of a look."""
        for name, rate in _input_rates(view).items():
            bins = self._seen.setdefault(name, Counter())
            bins[math.floor(math.log(rate, STEP)) if rate >= 1 else -1] += 1
            if bins.total() > MOST_LOOKS:
                for key in list(bins):
                    bins[key] //= 2

    def mean(self, name: str) -> float:
        """Return the mean rate of an input, roughly: a bin counts with where it begins."""
        bins = self._seen.get(name, Counter())
        return sum(_start(at) * n for at, n in bins.items()) / max(1, bins.total())

    def histograms(self) -> dict[str, dict[str, list[list[float]]]]:
        """Return bins in the form of a network file: where each begins, and how likely it is."""
        made = {}
        for name, bins in sorted(self._seen.items()):
            total = bins.total()
            known = sorted((at, n) for at, n in bins.items() if n)
            steps = [[_start(at), round(n / total, 6)] for at, n in known]
            # The last bin has an end too: nothing above it was seen.
            made[name] = {"histogram": [*steps, [_start(known[-1][0] + 1), 0.0]]}
        return made


def _start(at: int) -> float:
    return 0.0 if at < 0 else round(STEP**at, 3)


def measured_network(
    view: View, trace: RateTrace, selectivities: Mapping[str, float]
) -> dict[str, Any] | None:
    """Return a network file as data; None if the flow has read nothing.

    Inputs that are silent now are in it with the mean of the rates that they had.

    Args:
        view: The flow as it stands.
        trace: Rates seen so far.
        selectivities: Tuples that a query takes for each that is read, by query.
    """
    rates = {unit.id: view.rates[unit.id] or trace.mean(_input(unit)) for unit in view.model.units}
    terms = {
        unit.id: Terms(input=_input(unit), worth=1 / rates[unit.id], selectivities=selectivities)
        for unit in view.model.units
        if rates[unit.id] > 0
    }
    if not terms or not any(unit.families for unit in view.model.units if unit.id in terms):
        return None
    network = flow_network(view.model, terms, view.unsqueezed).network
    histograms = {name: each for name, each in trace.histograms().items() if name in network.inputs}
    return {"evenflow": VERSION, **_rounded(network_data(network)), "rates": histograms}


def _rounded(data: Any) -> Any:
    """Return data with as many digits as measuring can tell."""
    if isinstance(data, float):
        return float(f"{data:.{DIGITS}g}")
    return {key: _rounded(each) for key, each in data.items()} if isinstance(data, dict) else data


def _input(unit: UnitModel) -> str:
    """Return the stream that a unit reads: its source, or several as one."""
    return unit.sources[0] if len(unit.sources) == 1 else f"{unit.id}-rows"


def _input_rates(view: View) -> dict[str, float]:
    rates: dict[str, float] = {}
    for unit in view.model.units:
        name = _input(unit)
        rates[name] = max(rates.get(name, 0.0), view.rates[unit.id])
    return rates


def keep_network(state: Path, data: Mapping[str, Any]) -> None:
    """Replace what is kept of a flow."""
    write_sealed(state / FILE, dict(data))


def read_measured(flow: str, state: Path) -> dict[str, Any]:
    """Return the network file of a flow that was measured.

    Raises:
        StateError: It was not, or the file is damaged.
    """
    found = read_sealed(state / FILE)
    if found is None:
        raise StateError(
            f"flow {flow} has not been measured in {state}",
            "run it with --shed on or --shed dry-run for a while",
        )
    return dict(found)
