"""Command lines that make no sense: told in one line, as all errors are."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from evenflow.cli.command import print_error, say
from evenflow.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

_Refused: type[Exception] = typer.BadParameter.__mro__[1]
"""What all errors of a command line are; typer names only this one of them."""


class Commands(TyperGroup):
    """The commands. Typer calls `main` with the words of the command line."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command and exit."""
        try:
            code = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        except _Refused as exc:
            _tell(exc, self._named(sys.argv[1:] if args is None else args))
            code = UsageError.exit_code
        except typer.Abort:
            code = 1
        if not standalone_mode:
            return code
        sys.exit(code if isinstance(code, int) else 0)

    def _named(self, words: Sequence[str]) -> str:
        """Return the command that a command line is for, as far as there is one."""
        path, commands = ["evenflow"], self.commands
        for word in words:
            if word not in commands:
                break
            path.append(word)
            found = commands[word]
            commands = found.commands if isinstance(found, TyperGroup) else {}
        return " ".join(path)


def _tell(refused: Any, command: str) -> None:
    message = str(refused.format_message())
    if message.startswith("Usage:"):  # a command was asked for nothing: this is its help
        say(message)
        return
    print_error(UsageError(message.removesuffix("."), f"see {command} --help"))
