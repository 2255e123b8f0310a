"""Plans with one fraction for all queries: what the control loop is compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenflow.control.plans import Choice, Plans

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evenflow.control.model import FlowModel


class UniformPlans(Plans):
    """Chooses the greatest fraction that fits, for all queries alike."""

    def choose(self, model: FlowModel, rates: Mapping[str, float], capacity: float) -> Choice:
        """Return the gates. Load is linear in the one fraction."""
        names = {part.query for part in model.parts()}
        least = model.load(rates, dict.fromkeys(names, 0.0))
        most = model.load(rates, {})
        if most <= capacity:
            return Choice(keep=dict.fromkeys(names, 1.0), fits=True, method="open")
        if least >= capacity:
            return Choice(keep=dict.fromkeys(names, 0.0), fits=False, method="floors")
        share = (capacity - least) / (most - least)
        return Choice(keep=dict.fromkeys(names, share), fits=True, method="uniform")

    def prepare(self, model: FlowModel, rates: Mapping[str, float], capacity: float) -> None:
        """Make nothing ahead: it is arithmetic."""
