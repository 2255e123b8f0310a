"""Commands with fakes in the place of Spark."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from evenflow.cli.main import app
from evenflow.spark import java

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from typer.testing import Result

    Invoke = Callable[..., Result]


@pytest.fixture
def invoke() -> Invoke:
    """Run a command line in this process."""

    def run(*arguments: object) -> Result:
        words: Sequence[str] = [str(each) for each in arguments]
        return CliRunner().invoke(app, words)

    return run


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Put functions in the place of a module that needs Spark; Java is always found."""
    monkeypatch.setattr(java, "use_java", lambda: tmp_path)

    def put(module: str, **functions: Any) -> None:
        fake = ModuleType(f"evenflow.{module}")
        for name, function in functions.items():
            setattr(fake, name, function)
        monkeypatch.setitem(sys.modules, fake.__name__, fake)

    return put
