"""The checkout and its source files, for tests about the code itself."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "evenflow"


def source_files() -> list[Path]:
    files = sorted(SOURCE.rglob("*.py"))
    assert len(files) > 20
    return files


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
