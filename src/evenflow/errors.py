"""Every exception the package raises on purpose.

EvenflowError
├── UserError (ValueError)       what the user gave us is wrong; exit code 2
│   ├── ConfigError              a setting or a file is wrong
│   │   ├── FileError            a file has several faults, each an error of its own
│   │   └── NetworkError         a network, or rates, gates or plans given for it: carries the place
│   ├── UsageError               a command line is wrong
│   ├── QueryError               a query is wrong: carries its name and the place in its text
│   ├── StateError               the state directory is in use, damaged or of another version
│   └── ChangedQueryError        a known name now has other SQL
├── RunError                     a running flow failed; exit code 1
│   ├── EnvironmentFaultError    Java, a jar or a package is missing
│   ├── SinkError                answers could not be written
│   └── GivingWayError           a batch ends before it has begun, because its unit stops
└── InternalError                a promise of ours was broken: a bug here
"""

from __future__ import annotations

from typing import ClassVar


class EvenflowError(Exception):
    """Root of the tree."""

    code: ClassVar[str] = "evenflow"
    """Stable name for logs, metrics and tests. Never reworded."""

    exit_code: ClassVar[int] = 1
    """What the command line ends with."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message


class UserError(EvenflowError, ValueError):
    """Input is wrong. Nothing was changed."""

    code = "input.invalid"
    exit_code = 2


class ConfigError(UserError):
    """A setting or a file is unknown, missing or out of range."""

    code = "config.invalid"


class FileError(ConfigError):
    """A file has several faults. Each can be mended without knowing the others."""

    code = "config.file"

    def __init__(self, message: str, faults: tuple[EvenflowError, ...]) -> None:
        super().__init__(message)
        self.args = (message, faults)
        self.faults = faults


class NetworkError(ConfigError):
    """A network cannot be planned for, or what was asked of it makes no sense.

    `code` is refined per instance, as a query's is.
    """

    code = "network.invalid"

    def __init__(
        self, code: str, message: str, place: tuple[str | int, ...] = (), hint: str | None = None
    ) -> None:
        super().__init__(message, hint)
        self.args = (code, message, place, hint)
        self.code = code  # type: ignore[misc]  # refined per instance, see above
        self.place = place
        """Keys that lead to the fault, as `("operators", "a1", "cost")`."""

    def __str__(self) -> str:
        where = ".".join(str(key)[:80] for key in self.place)
        return f"{where}: {self.message}" if where else self.message


class UsageError(UserError):
    """A command line lacks something, or has a word or value that makes no sense."""

    code = "usage"


class QueryError(UserError):
    """A query cannot be built.

    `code` is refined per instance, because there are many ways to be wrong and tests, scripts
    and people tell them apart by it.
    """

    code = "query.invalid"

    def __init__(
        self,
        code: str,
        message: str,
        *,
        query: str | None = None,
        text: str | None = None,
        position: int | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint)
        self.code = code  # type: ignore[misc]  # refined per instance, see above
        self.query = query
        self.text = text
        self.position = position

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_query_error, (
            self.code,
            self.message,
            self.query,
            self.text,
            self.position,
            self.hint,
        )

    def located(self, query: str | None, text: str | None) -> QueryError:
        """Return the same fault with the query's name and text filled in where missing."""
        return QueryError(
            self.code,
            self.message,
            query=self.query if self.query is not None else query,
            text=self.text if self.text is not None else text,
            position=self.position,
            hint=self.hint,
        )

    def place(self) -> tuple[int, int] | None:
        """Line and column, both from 1, of the fault in the query's text."""
        if self.text is None or self.position is None:
            return None
        before = self.text[: self.position]
        return before.count("\n") + 1, self.position - (before.rfind("\n") + 1) + 1

    def caret(self) -> str | None:
        """Two lines: the line of the text that is wrong, and a caret under the place."""
        place = self.place()
        if place is None or self.text is None:
            return None
        line, column = place
        lines = self.text.split("\n")
        shown = lines[line - 1] if line <= len(lines) else ""
        start = max(0, column - 60)
        return f"{shown[start : start + 120]}\n{' ' * (column - 1 - start)}^"

    def __str__(self) -> str:
        where = f"query {self.query}" if self.query else "query"
        place = self.place()
        at = f", line {place[0]} column {place[1]}" if place else ""
        return f"{where}{at}: {self.message}"


def _rebuild_query_error(
    code: str,
    message: str,
    query: str | None,
    text: str | None,
    position: int | None,
    hint: str | None,
) -> QueryError:
    return QueryError(code, message, query=query, text=text, position=position, hint=hint)


class StateError(UserError):
    """A state directory is in use, damaged, or written by a newer version."""

    code = "state.invalid"


class ChangedQueryError(UserError):
    """A query's text differs from the one its state was made by."""

    code = "query.changed"


class RunError(EvenflowError):
    """A flow failed while running."""

    code = "run.failed"


class EnvironmentFaultError(RunError):
    """Something this machine needs is missing."""

    code = "environment.missing"


class SinkError(RunError):
    """Answers could not be written."""

    code = "sink.failed"


class GivingWayError(RunError):
    """A batch ends before it has begun, because its unit stops. It is done later."""

    code = "run.giving-way"


class InternalError(EvenflowError):
    """A promise of ours does not hold. Please report it."""

    code = "internal"
