"""What all commands have in common: their options, how they print, how they fail."""

from __future__ import annotations

import enum
import functools
import json
import os
import signal
import sys
import threading
import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec

import typer

from evenflow.errors import EvenflowError, FileError, QueryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

P = ParamSpec("P")

UNHEALTHY = 3
"""Exit code: something is quarantined."""
INTERRUPTED = 130
BROKEN_PIPE = 141


class Format(enum.Enum):
    """How a report is printed."""

    TEXT = "text"
    JSON = "json"


FlowPath = Annotated[Path, typer.Argument(metavar="FLOW", help="The flow file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
AsFormat = Annotated[Format, typer.Option("--format", help="json is the same as --json.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Say more, and show the stack trace of an error.")
]
State = Annotated[
    Path | None,
    typer.Option(help="State directory, instead of the file's.", envvar="EVENFLOW_STATE"),
]
Master = Annotated[
    str | None,
    typer.Option(help="Where Spark runs; local[*] if not given.", envvar="EVENFLOW_MASTER"),
]


def guarded(command: Callable[P, None]) -> Callable[P, None]:
    """Return a command that ends with an exit code instead of an exception."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        verbose = bool(kwargs.get("verbose"))
        try:
            with _ended_like_interrupted():
                command(*args, **kwargs)
            sys.stdout.flush()
        except EvenflowError as exc:
            _end_if_interrupted(exc)
            print_error(exc, verbose=verbose)
            raise typer.Exit(exc.exit_code) from None
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            # Whoever read stdout is gone; without this Python complains once more at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(BROKEN_PIPE) from None
        except (typer.Exit, typer.Abort):
            raise
        except Exception as exc:  # noqa: BLE001  # the top of the shell
            _end_if_interrupted(exc)
            print_unexpected(exc, verbose=verbose)
            raise typer.Exit(1) from None

    return run


@contextmanager
def _ended_like_interrupted() -> Iterator[None]:
    """Have SIGTERM, as service managers send it, do what Ctrl-C does by now."""
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def end(_: int, frame: Any) -> None:
        handler = signal.getsignal(signal.SIGINT)
        if not callable(handler):  # Ctrl-C is ignored in the background of a shell
            raise KeyboardInterrupt
        handler(signal.SIGINT, frame)

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _end_if_interrupted(error: BaseException) -> None:
    """End as on Ctrl-C if that is what broke off a call to Spark, and cleaning up failed for it.

    Raises:
        typer.Exit: It is.
    """
    before: BaseException | None = error
    while before is not None:
        if isinstance(before, KeyboardInterrupt):
            raise typer.Exit(INTERRUPTED) from None
        before = before.__cause__ or before.__context__


def print_error(error: EvenflowError, *, verbose: bool = False) -> None:
    """Print an error on stderr: one line with its code, the place in a query, a hint."""
    if verbose:
        say("".join(traceback.format_exception(error)).rstrip())
    for each in error.faults if isinstance(error, FileError) else (error,):
        say(f"error[{each.code}]: {one_line(str(each))}")
        caret = each.caret() if isinstance(each, QueryError) else None
        if caret is not None:
            say("\n".join(f"  {line}" for line in caret.split("\n")))
        if each.hint:
            say(f"  hint: {one_line(each.hint)}")


def print_unexpected(error: Exception, *, verbose: bool = False) -> None:
    """Print an error that nobody expected: a fault of ours, or of something below us."""
    if verbose:
        say("".join(traceback.format_exception(error)).rstrip())
    text = one_line(str(error)) or "no message"
    say(f"error[internal]: {type(error).__name__}: {text}")
    if not verbose:
        say("  hint: run it again with -v to see where")


def one_line(text: str) -> str:
    """Return a text without line breaks and control characters, not too long."""
    flat = " ".join(text.split())
    shown = "".join(c if c.isprintable() else "?" for c in flat)
    return shown if len(shown) <= 500 else f"{shown[:497]}..."


def say(text: str) -> None:
    """Print on stderr: everything that is not data."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def put(text: str) -> None:
    """Print on stdout: data, and nothing else."""
    print(text)  # noqa: T201


def put_json(value: Any) -> None:
    """Print one JSON object on one line of stdout."""
    put(json.dumps(value, ensure_ascii=False, default=str))


def wants_json(as_json: bool, format_: Format) -> bool:
    """Whether a report is asked for as JSON, by either option."""
    return as_json or format_ is Format.JSON
