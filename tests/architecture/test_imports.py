"""Import contracts, and what must not be imported by importing us."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.architecture.tree import ROOT

HEAVY = ("pyspark", "py4j", "pandas", "pyarrow", "numpy", "highspy", "scipy", "matplotlib")
LIGHT = ("pydantic", "yaml", "rich", "sqlglot")


def _imported_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return set(done.stdout.split())


@pytest.mark.slow
def test_the_contracts_of_the_project_file_hold() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [str(linter), "--no-cache"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "statement",
    [
        "import evenflow",
        "import evenflow.cli.main",
        "import evenflow.graph.graph, evenflow.graph.explain",
        "import evenflow.schedule.cut",
        "import evenflow.cli.flow_file",
        "from evenflow import Flow, Sink, col, count",
    ],
)
def test_no_spark_is_imported_by(statement: str) -> None:
    assert not _imported_by(statement) & set(HEAVY)


@pytest.mark.slow
def test_help_needs_neither_parser_nor_models() -> None:
    assert not _imported_by("import evenflow.cli.main") & {*HEAVY, *LIGHT}
