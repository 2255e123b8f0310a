"""Rejected tuples of a unit's queries: a few of the newest, each with the reason, in a file.

Batches bring samples: tuples that were rejected, but not for whom and why. That is found out here,
by evaluating what can fail once more, on the samples alone and not often.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from evenflow.graph.explain.wording import column_names, failure_text
from evenflow.model.failure import can_fail, failing_parts
from evenflow.spark.compile.columns import compile_expression
from evenflow.spark.compile.sample import MOST_SAMPLES, TUPLE, WHY, tuple_of
from evenflow.spark.compile.trunk import resolver
from evenflow.spark.state.rejected import keep_rejected

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import SparkSession

    from evenflow.model.unit import Condition, Unit

_MOST_TEXT = 2000
_PAUSE_SECONDS = 5.0
"""Between two looks at samples."""
_ANSWER = "an answer could not be computed: overflow of a sum, or an error in HAVING or SELECT"


class Rejects:
    """Keeps samples of what a unit rejects."""

    def __init__(
        self, session: SparkSession, unit: Unit, names: Mapping[int, str], file: Path
    ) -> None:
        self._session = session
        self._unit = unit
        self._names = names
        self._file = file
        self._conditions = {n: c for n, c in _conditions(unit).items() if n in names}
        self._looked_at: float | None = None
        self._waiting: list[str] = []

    def take(self, samples: Iterable[str], answers: Mapping[int, list[str]]) -> None:
        """Take what a batch rejected: tuples, and answers by part."""
        self._waiting = [*self._waiting, *samples][-MOST_SAMPLES:]
        now = time.monotonic()
        if self._looked_at is None or now - self._looked_at > _PAUSE_SECONDS:
            self.look(answers)

    def look(self, answers: Mapping[int, list[str]] | None = None) -> None:
        """Find out about the samples that wait, and write them down."""
        if not self._waiting and not answers:
            return
        found: dict[str, list[dict[str, Any]]] = {}
        try:
            reasons_of = self._reasons(self._waiting)
        except PySparkException:
            return  # a session that is being stopped; samples are not worth a batch
        for text, reasons in zip(self._waiting, reasons_of, strict=True):
            shown = json.loads(text)[TUPLE]
            for number, reason in reasons.items():
                found.setdefault(self._names[number], []).append(_entry(shown, reason))
        for number, texts in (answers or {}).items():
            if number in self._names:
                entries = [_entry(json.loads(text), _ANSWER) for text in texts]
                found.setdefault(self._names[number], []).extend(entries)
        self._waiting = []
        self._looked_at = time.monotonic()
        if found:
            keep_rejected(self._file, found)

    def _reasons(self, samples: list[str]) -> list[dict[int, str]]:
        """Return, for each sample, why each part rejected it."""
        whole = [json.loads(text)[WHY] for text in samples]
        here = [text for text, why in zip(samples, whole, strict=True) if why is None]
        evaluated = iter(self._evaluate(here))
        return [
            dict.fromkeys(self._conditions, why) if why is not None else next(evaluated)
            for why in whole
        ]

    def _evaluate(self, samples: list[str]) -> list[dict[int, str]]:
        if not samples:
            return []
        asked = {n: self._why(c) for n, c in self._conditions.items()}
        columns = [why.alias(str(n)) for n, why in asked.items() if why is not None]
        if not columns:
            return [{} for _ in samples]
        width = range(len(self._unit.trunk.schema))
        given = self._session.createDataFrame([(text,) for text in samples], "sample string")
        tuples = given.select(tuple_of(F.col("sample"), self._unit.trunk).alias("t")).select("t.*")
        rows = tuples.toDF(*(f"c{i}" for i in width)).select(*columns).collect()
        return [{int(n): why for n, why in r.asDict().items() if why is not None} for r in rows]

    def _why(self, condition: Condition) -> SparkColumn | None:
        """Return why a condition fails on a tuple, NULL where it does not."""
        resolve = resolver(self._unit.trunk)
        names = column_names(self._unit.trunk)
        predicate = compile_expression(condition.predicate, resolve)
        reasons = []
        for guarded, expression in [
            (False, condition.predicate),
            *((True, guard) for guard in condition.guards),
        ]:
            fails = compile_expression(expression, resolve).error
            if fails is None:
                continue
            if guarded:
                fails = fails & F.coalesce(predicate.value, F.lit(False))
            # The innermost part that fails is the cause.
            causes = [
                F.when(error, F.lit(failure_text(part, names)))
                for part in failing_parts(expression)
                if (error := compile_expression(part, resolve).error) is not None
            ]
            reasons.append(F.when(fails, F.coalesce(*causes)))
        return F.coalesce(*reasons) if reasons else None


def can_reject(unit: Unit) -> bool:
    """Whether a query of a unit can reject a tuple that its trunk did not."""
    return any(can_fail(e) for c in _conditions(unit).values() for e in (c.predicate, *c.guards))


def _conditions(unit: Unit) -> dict[int, Condition]:
    """Return which tuples count, by part."""
    windowed = {m.number: family.conditions[m.condition] for family, m in unit.members}
    return {b.number: b.condition for b in unit.branches} | windowed


def _entry(shown: Any, reason: str) -> dict[str, Any]:
    if len(json.dumps(shown)) > _MOST_TEXT:
        shown = json.dumps(shown)[:_MOST_TEXT]
    return {"at": round(time.time(), 3), "reason": reason, "tuple": shown}
