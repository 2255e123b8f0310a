"""`exact` as a method of planning ahead: bases that are met at rates all over the space."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any

from evenflow.errors import NetworkError
from evenflow.shed.linear.exact import FragmentExact

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from evenflow.shed.network import Network
    from evenflow.shed.workload import Workload

MOST_TRIES = 5_000
QUIET = 500
"""Planning ends after this many rates in a row that a known basis serves."""
MOST_CORNERS = 256


class ExactMethod:
    """Every plan is optimal. What planning did not meet, selecting solves."""

    unlimited = True
    additive = False
    limit = "it misses nothing"

    def plan(
        self,
        network: Network,
        max_rates: Mapping[str, float],
        epsilon: float,  # noqa: ARG002  # nothing is missed
        workload: Workload,  # noqa: ARG002  # all rates count alike
    ) -> FragmentExact:
        """Meet bases at corners of the space, then at random, until no new ones come."""
        index = FragmentExact(network)
        quiet = 0
        for rates in itertools.islice(_rates(max_rates), MOST_TRIES):
            try:
                met = index.meet(rates)
            except NetworkError:
                # Floors may be out of reach at some rates. Selecting them tells.
                met = False
            quiet = 0 if met else quiet + 1
            if quiet > QUIET:
                break
        return index

    def restore(
        self,
        network: Network,
        max_rates: Mapping[str, float],  # noqa: ARG002  # bases know no greatest rates
        data: Mapping[str, Any],
    ) -> FragmentExact:
        """Return the index that data was made from."""
        index = FragmentExact(network)
        index.take(data["bases"])
        return index


def _rates(max_rates: Mapping[str, float]) -> Iterator[dict[str, float]]:
    corners = itertools.product((1.0, 0.0), repeat=len(max_rates))
    for shares in itertools.islice(corners, MOST_CORNERS):
        yield {n: share * r for (n, r), share in zip(max_rates.items(), shares, strict=True)}
    draw = random.Random(len(max_rates))  # the same rates every time
    while True:
        size = draw.random()
        yield {name: size * draw.random() * rate for name, rate in max_rates.items()}
