"""Sizes and calls: what no source file may be or contain."""

from __future__ import annotations

import ast

from tests.architecture.tree import ROOT, parsed, shown, source_files

MOST_LINES = 500
LONG_FILES = ROOT / "tests" / "architecture" / "long_files.txt"

FORBIDDEN_CALLS = {"expr", "selectExpr", "sql", "eval", "exec"}
"""User text must never reach an interpreter: Spark's SQL parser, or Python's."""
PRIVATE_OF_SPARK = ("_jvm", "_jdf", "_jsparkSession", "_jsc", "_jseq", "_jwrite", "_jreader")


def _reasons() -> dict[str, str]:
    lines = LONG_FILES.read_text(encoding="utf-8").splitlines()
    entries = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    return {path: " ".join(reason) for path, *reason in entries}


def _forbidden(tree: ast.AST) -> list[str]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = node.func
            name = getattr(function, "attr", None) or getattr(function, "id", None)
            of_our_own = isinstance(function, ast.Attribute) and _is_self(function.value)
            if name in FORBIDDEN_CALLS and not of_our_own:
                found.append(f"{node.lineno}: {name}(...)")
        if isinstance(node, ast.Attribute) and node.attr in PRIVATE_OF_SPARK:
            found.append(f"{node.lineno}: {node.attr}")
    return found


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def test_source_files_are_short_or_have_a_reason() -> None:
    reasons = _reasons()
    long = {
        shown(path)
        for path in source_files()
        if len(path.read_text(encoding="utf-8").splitlines()) > MOST_LINES
    }
    assert long == set(reasons)
    assert all(reasons.values())


def test_no_text_reaches_an_interpreter_and_no_private_part_of_spark_is_used() -> None:
    found = {shown(path): _forbidden(parsed(path)) for path in source_files()}
    assert {path: calls for path, calls in found.items() if calls} == {}


def test_the_search_for_calls_finds_them() -> None:
    code = "F.expr(x)\nframe.selectExpr(x)\nspark.sql(x)\neval(x)\nexec(x)\nspark._jvm.System\n"
    assert len(_forbidden(ast.parse(code))) == 6


def test_modules_say_what_lives_in_them() -> None:
    silent = [shown(path) for path in source_files() if ast.get_docstring(parsed(path)) is None]
    assert silent == []


def test_no_module_is_named_for_anything_and_nothing() -> None:
    vague = {"utils.py", "helpers.py", "common.py", "manager.py"}
    assert [shown(path) for path in source_files() if path.name in vague] == []
