"""What came of the surge, for a person: two tables and what they mean in sentences. Pure."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from evenflow.cli.table import cell_text, percent, text_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Report = dict[str, Any]
Queries = list[tuple[str, "Mapping[str, Any]"]]
_REST = ("filtered", "late", "rejected", "open")


def report_text(report: Report, width: int) -> str:
    """Return tables and sentences.

    Args:
        report: What came of the surge.
        width: Of the screen.
    """
    story = [
        textwrap.fill(
            each, width, initial_indent="- ", subsequent_indent="  ", break_long_words=False
        )
        for each in sentences(report)
    ]
    return "\n\n".join([queries_text(report), counts_text(report), "\n".join(story)])


def by_worth(report: Report) -> Queries:
    """Return the queries in the order in which their gates shut: the least weight per cost first.

    Those of which nothing may be dropped come last.
    """
    return sorted(
        report["queries"].items(), key=lambda each: (each[1]["floor"] >= 1, worth(each[1]), each[0])
    )


def worth(query: Mapping[str, Any]) -> float:
    """Return the weight of a query for what a tuple of it costs."""
    return float(query["weight"] / max(query["cost_us"], 0.1))


def queries_text(report: Report) -> str:
    """Return what each query is worth, what it kept and how old its answers were."""
    headers = ("query", "weight", "cost us", "floor", "kept", "worst age s", "deadline s", "held")
    rows = [
        [
            name,
            query["weight"],
            query["cost_us"],
            percent(query["floor"]),
            percent(query["kept_in_surge"]),
            query["worst_age_seconds"],
            query["deadline_seconds"],
            {True: "yes", False: "no", None: "-"}[query["deadline_held"]],
        ]
        for name, query in by_worth(report)
    ]
    return text_table(headers, rows)


def counts_text(report: Report) -> str:
    """Return what became of the tuples of each query."""
    headers = ("query", "tuples", "= answered", *(f"+ {field}" for field in ("shed", *_REST)))
    rows = [
        [
            name,
            counts["in"],
            counts["contributed"],
            sum(counts["shed"].values()),
            *(counts[field] for field in _REST),
        ]
        for name, query in by_worth(report)
        for counts in (query["counts"],)
    ]
    return text_table(headers, rows)


def sentences(report: Report) -> Iterator[str]:
    """Yield what happened: how much came, who gave way and why, when it was over."""
    yield _load(report)
    if report["loop_died"] is not None:
        yield f"The control loop has ended before its time: {report['loop_died']}."
    given = [each for each in by_worth(report) if each[1]["kept_in_surge"] < 1]
    whole = [each for each in by_worth(report) if each[1]["kept_in_surge"] >= 1]
    yield from _gave_way(given)
    yield from _lost_nothing(given, whole)
    yield _ages(report)
    yield from _gates(report, bool(given))
    yield _accounted(report)


def _load(report: Report) -> str:
    told = (
        f"The meters sent {cell_text(report['usual_rows_per_second'])} rows/s, and "
        f"{cell_text(report['surge_rows_per_second'])} for {report['surge_seconds']:.0f} s"
    )
    if report["times_capacity"] is None:
        return f"{told}."
    return (
        f"{told}: {report['times_capacity']:.1f} times the "
        f"{cell_text(report['capacity_rows_per_second'])} rows/s that fit here with all gates open."
        f" {percent(report['value_kept'])} of the value was kept, by weight."
    )


def _gave_way(given: Queries) -> Iterator[str]:
    if not given:
        yield "Nobody gave way."
        return
    kept = [
        f"{name} {percent(query['kept_in_surge'])}"
        + (f" (its floor is {percent(query['floor'])})" if query["floor"] > 0 else "")
        for name, query in given
    ]
    yield f"Who gave way, and what was kept: {_list(kept)}."
    (first, least), (last, most) = given[0], given[-1]
    told = f"Why: the least weight for the cost goes first. {_terms(first, least)}"
    yield f"{told}." if first == last else f"{told}, {_terms(last, most)}."


def _terms(name: str, query: Mapping[str, Any]) -> str:
    return f"{name} weighs {query['weight']:g} at {cell_text(query['cost_us'])} us per tuple"


def _lost_nothing(given: Queries, whole: Queries) -> Iterator[str]:
    if not given:
        return
    never = [name for name, query in whole if query["floor"] >= 1]
    others = [(name, query) for name, query in whole if query["floor"] < 1]
    if others:
        # What a family shares can make it another order than that of weight for cost.
        least = min(worth(query) for _, query in others)
        more = all(worth(query) <= least for _, query in given)
        why = ": more weight for the cost than those that gave way" if more else ""
        yield f"{_list([name for name, _ in others])} lost nothing{why}."
    if never:
        yield f"{_list(never)} lost nothing, and may not: by a floor of 100%."


def _ages(report: Report) -> str:
    asked = {
        name: query
        for name, query in report["queries"].items()
        if query["deadline_seconds"] is not None and query["worst_age_seconds"] is not None
    }
    if not asked:
        return "No query with a deadline answered in the surge."
    late = [name for name, query in asked.items() if not query["deadline_held"]]
    name = max(asked, key=lambda each: asked[each]["worst_age_seconds"])
    oldest = asked[name]
    worst = f"{oldest['worst_age_seconds']:.1f} s of {oldest['deadline_seconds']:g} s ({name})"
    if late:
        return f"Answers of {_list(late)} were late for a while; the oldest was {worst}."
    return f"Deadlines held: the oldest answer was {worst}."


def _gates(report: Report, given: bool) -> Iterator[str]:
    shut, opened = report["gates_shut_after_seconds"], report["gates_open_after_seconds"]
    if shut is not None:
        yield f"Gates were set {shut:.1f} s after the surge had begun."
    if opened is not None:
        yield (
            f"All gates were open again {opened:.1f} s after the surge was over."
            if opened >= 0
            else f"All gates were open again {-opened:.1f} s before the surge was over."
        )
    elif given:
        yield "Gates were still shut when the demo ended; it may be longer, with --for."


def _accounted(report: Report) -> str:
    if report["accounted"]:
        return "Every tuple of every query is accounted for, as the second table shows."
    wrong = [name for name, query in report["queries"].items() if not query["accounted"]]
    return f"The counts of {_list(wrong)} do NOT add up: this is a fault of Evenflow."


def _list(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
