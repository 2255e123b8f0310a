"""What a start on a kept life means: the flow has its say, and what came at run time stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenflow.errors import ChangedQueryError
from evenflow.schedule.request import Origin, QueryState, Request, Subscribe, Unsubscribe

if TYPE_CHECKING:
    from collections.abc import Iterable

    from evenflow.model.query import Query
    from evenflow.schedule.life import Life


def requests_at_start(life: Life, queries: Iterable[Query], *, replace: bool) -> list[Request]:
    """Return what makes of a life that was kept the flow as it is started now.

    Raises:
        ChangedQueryError: A known name has another query and `replace` is not set.
    """
    requests: list[Request] = []
    given = {query.name: query for query in queries}
    for name, known in life.queries.items():
        if name not in given:
            if known.origin is Origin.FILE and known.state is not QueryState.KEPT:
                requests.append(Unsubscribe(name=name))
            continue
        if known.operator == given[name].operator.hash:
            continue
        if not replace:
            raise ChangedQueryError(
                f"query {name} differs from the one that this state was made by",
                "rename it, or replace it with --replace",
            )
        requests.append(Unsubscribe(name=name))
    left = {r.name for r in requests}
    for name, query in sorted(given.items()):
        there = life.queries.get(name)
        if there is None or name in left or there.state is QueryState.KEPT:
            requests.append(Subscribe(query=query, origin=Origin.FILE))
    return requests
