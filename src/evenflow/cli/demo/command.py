"""`evenflow demo`: its options, and the acts one after the other."""

from __future__ import annotations

import enum
import logging
import shutil
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from evenflow.base.duration import parse_duration
from evenflow.cli.command import (
    AsFormat,
    AsJson,
    Format,
    Verbose,
    guarded,
    put,
    put_json,
    say,
    wants_json,
)
from evenflow.cli.shed.output_file import check_picture
from evenflow.errors import UserError

SHARING_SECONDS, SURGE_SECONDS = 20.0, 48.0
LEAST_SURGE_SECONDS = 30.0
"""Shorter, and the surge would come while the first batches still warm up."""
_WIDEST = 100
_OWN_FLOW = """\
For a flow of yours, if one of its queries has a deadline:
  evenflow run FLOW.yaml             sheds when load does not fit; see --shed
  evenflow status FLOW.yaml --watch  how it stands, from another terminal
  evenflow decisions FLOW.yaml       what was decided, why, what came of it"""


class Act(enum.Enum):
    """What is shown."""

    SHARING = "sharing"
    SURGE = "surge"


@guarded
def demo(
    act: Annotated[
        Act | None,
        typer.Option(help="Play this act only; both, one after the other, if not given."),
    ] = None,
    for_: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="DURATION",
            help="How long the flow of each act runs: 20s and 48s if not given; the surge takes "
            "30s at least.",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Draw rates, ages and shares of the surge, as .svg or .png."
        ),
    ] = None,
    as_json: AsJson = False,
    format_: AsFormat = Format.TEXT,
    verbose: Verbose = False,
) -> None:
    """Show on synthetic smart meters what Evenflow does, in two acts of a minute or two.

    sharing: twenty queries run as one flow; then the same on a sample, also as plain Spark.
    Are the answers equal, and how much faster is it?

    surge: seven queries of different weight and cost; for a while the meters send several times
    what this machine can do. Who gives way, how much, why, and how does it come back?

    Nothing is left behind but the picture. Ctrl-C ends it.
    """
    from evenflow.spark.java import use_java

    seconds = None if for_ is None else parse_duration(for_)
    _check_picture(plot, act)
    as_data = wants_json(as_json, format_)
    use_java()
    # What fails in a call that Ctrl-C breaks off is raised; py4j would print it besides.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    shown = _Shown(as_data=as_data, verbose=verbose)
    result: dict[str, Any] = {}
    if act is not Act.SURGE:
        result["sharing"] = _sharing(seconds or SHARING_SECONDS, shown)
    if act is not Act.SHARING:
        result["surge"] = _surge(max(seconds or SURGE_SECONDS, LEAST_SURGE_SECONDS), shown, plot)
    if as_data:
        put_json(result)
    if not _is_right(result):
        raise typer.Exit(1)


class _Shown:
    """Where texts go: data and results to stdout, unless they are asked for as JSON."""

    def __init__(self, *, as_data: bool, verbose: bool) -> None:
        self.verbose = verbose
        self.quiet = as_data and not verbose
        """Say nothing on the way: a script reads."""
        self.as_data = as_data

    def step(self, text: str) -> None:
        """Say what is done next."""
        if not self.quiet:
            say(text)

    def result(self, text: str) -> None:
        """Print what came of it."""
        if not self.as_data:
            put(text)


def _check_picture(plot: Path | None, act: Act | None) -> None:
    """Refuse a picture that could not be drawn, before minutes are spent on it."""
    if plot is None:
        return
    if act is Act.SHARING:
        raise UserError("a picture is drawn of the surge", "leave out --act, or --plot")
    check_picture(plot)


def _is_right(result: dict[str, Any]) -> bool:
    equal = result.get("sharing", {}).get("equal", True)
    return bool(equal and result.get("surge", {}).get("accounted", True))


def _sharing(seconds: float, shown: _Shown) -> dict[str, Any]:
    from evenflow.cli.compare import comparison_text
    from evenflow.cli.demo.sharing import (
        FLOW,
        SAMPLE_ROWS,
        answers_text,
        compare_shared,
        run_shared,
    )
    from evenflow.cli.flow_file import read_flow

    with tempfile.TemporaryDirectory(prefix="evenflow-demo-") as directory:
        flow = read_flow(FLOW, base=Path(directory))
        count = len(flow.graph.queries)
        shown.step(f"sharing: {count} queries over synthetic meters run for {seconds:.0f} s")
        status = run_shared(flow, seconds, verbose=shown.verbose)
        shown.result(answers_text(status))
        shown.result(
            f"\noperators: {flow.graph.operators_alone()} if every query ran alone, "
            f"{flow.graph.operators_shared()} ran"
        )
        shown.step(
            f"sharing: the same on a sample of {SAMPLE_ROWS:,} rows, also as plain Spark; "
            "about a minute"
        )
        result = compare_shared(flow, lambda text: shown.step(f"sharing: {text}"))
    shown.result(f"\n{comparison_text(result)}\n")
    return result


def _surge(seconds: float, shown: _Shown, plot: Path | None) -> dict[str, Any]:
    from evenflow.cli.demo.live import shown_surge
    from evenflow.cli.demo.picture import write_picture
    from evenflow.cli.demo.report import surge_report
    from evenflow.cli.demo.script import script_of
    from evenflow.cli.demo.surge import play, surge_flow, survey
    from evenflow.cli.demo.text import report_text
    from evenflow.spark.session import make_session

    session = make_session("evenflow demo")
    try:
        with tempfile.TemporaryDirectory(prefix="evenflow-demo-") as directory:
            machine = survey(session, Path(directory), lambda text: shown.step(f"surge: {text}"))
            script, rates = script_of(seconds), machine.rates()
            flow = surge_flow(Path(directory), script, rates, machine.cores)
            shown.step(
                f"surge: {len(flow.graph.queries)} queries run for {seconds:.0f} s; after "
                f"{script.calm:.0f} s the meters send {rates.times} times as much, for "
                f"{script.surge:.0f} s\n"
                f"surge: in another terminal: evenflow status {directory}/surge.yaml --watch"
            )
            with shown_surge(flow.spec().queries, quiet=shown.quiet) as view:
                played = play(session, flow, machine, script, rates, view)
    finally:
        session.stop()
    if played.ended_early:
        raise KeyboardInterrupt
    report = surge_report(played)
    if plot is not None:
        write_picture(plot, report)
        shown.step(f"surge: {plot} is drawn")
    width = min(_WIDEST, shutil.get_terminal_size().columns)
    shown.result(f"{report_text(report, width)}\n\n{_OWN_FLOW}")
    return report
