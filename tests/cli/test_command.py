"""Exit codes, errors on stderr, data on stdout."""

from __future__ import annotations

import json
import os
import pickle
import resource
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer
from tests.architecture.tree import ROOT
from tests.cli.flows import GOOD, changed, write

import evenflow
from evenflow.bench import sharing
from evenflow.bench.choice import Only
from evenflow.cli.command import INTERRUPTED, guarded, one_line, print_error
from evenflow.errors import (
    EnvironmentFaultError,
    FileError,
    QueryError,
    RunError,
    StateError,
    UserError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.conftest import Invoke

COMMANDS = (
    "check",
    "explain",
    "run",
    "status",
    "compare",
    "demo",
    "doctor",
    "bench",
    "schema",
    "shed",
)


def _exit_code(error: BaseException) -> int:
    @guarded
    def command(verbose: bool = False) -> None:
        raise error

    with pytest.raises(typer.Exit) as caught:
        command()
    return caught.value.exit_code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UserError("x"), 2),
        (StateError("in use"), 2),
        (QueryError("column.unknown", "x"), 2),
        (FileError("x", (UserError("y"),)), 2),
        (RunError("x"), 1),
        (EnvironmentFaultError("x"), 1),
        (RuntimeError("a bug"), 1),
        (KeyboardInterrupt(), 130),
        (typer.Exit(3), 3),
    ],
)
def test_an_error_becomes_an_exit_code(error: BaseException, code: int) -> None:
    assert _exit_code(error) == code


def test_an_error_is_one_line_with_code_place_and_hint(capsys: pytest.CaptureFixture[str]) -> None:
    text = "SELECT meter,\n       kw FROM readings"
    print_error(
        QueryError(
            "column.unknown",
            "column kw\nis not known",
            query="q",
            text=text,
            position=21,
            hint="kwh?",
        )
    )
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines() == [
        "error[column.unknown]: query q, line 2 column 8: column kw is not known",
        "         kw FROM readings",
        "         ^",
        "  hint: kwh?",
    ]


def test_every_fault_of_a_file_gets_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_error(FileError("2 faults", (UserError("a"), QueryError("sql.syntax", "b"))))
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["error[input.invalid]: a", "error[sql.syntax]: query: b"]


def test_errors_survive_a_process_boundary() -> None:
    error = FileError("2 faults", (UserError("a", "hint"), QueryError("sql.syntax", "b")))
    again = pickle.loads(pickle.dumps(error))
    assert (again.message, again.code) == ("2 faults", "config.file")
    assert [(f.code, f.message, f.hint) for f in again.faults] == [
        ("input.invalid", "a", "hint"),
        ("sql.syntax", "b", None),
    ]


def test_a_stack_trace_comes_with_verbose_only(invoke: Invoke, tmp_path: Path) -> None:
    path = write(tmp_path, changed("weight: 3", "weigth: 3"))
    assert "Traceback" not in invoke("check", path).stderr
    assert "Traceback" in invoke("check", path, "-v").stderr


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert one_line("a\x1b[31m\nb") == "a?[31m b"
    assert len(one_line("x" * 1000)) == 500


# --- commands -------------------------------------------------------------------------------------


def test_check_says_that_a_file_is_right(invoke: Invoke, tmp_path: Path) -> None:
    result = invoke("check", write(tmp_path, GOOD))
    assert result.exit_code == 0
    assert result.stdout.startswith("metering is right: 2 queries over 1 source, ")
    assert "table sites is read by no query" in result.stderr


@pytest.mark.parametrize("option", [["--json"], ["--format", "json"]])
def test_check_as_json(invoke: Invoke, tmp_path: Path, option: list[str]) -> None:
    result = invoke("check", write(tmp_path, GOOD), *option)
    found = json.loads(result.stdout)
    assert found["valid"] is True
    assert (found["queries"], found["sources"], found["tables"]) == (2, 1, 1)
    assert found["operators_shared"] < found["operators_alone"]


def test_check_warns_of_queries_whose_answers_go_nowhere(invoke: Invoke, tmp_path: Path) -> None:
    text = changed("    sink: {format: parquet, path: out/heavy}\n", "")
    assert "query heavy has no sink" in invoke("check", write(tmp_path, text)).stderr
    text += "  over: {sql: SELECT meter FROM heavy, sink: {format: console}}\n"
    assert "heavy" not in invoke("check", write(tmp_path, text)).stderr


def test_bad_input_exits_with_2_and_nothing_on_stdout(invoke: Invoke, tmp_path: Path) -> None:
    for text in (
        changed("weight: 3", "weigth: 3"),
        changed("FROM readings WHERE 0", "FROM x WHERE 0"),
    ):
        result = invoke("check", write(tmp_path, text), "--json")
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith("error[")
    assert invoke("check", tmp_path / "none.yaml").exit_code == 2


@pytest.mark.parametrize(
    "words",
    [
        ["nonsense"],
        ["check"],
        ["check", "a", "b"],
        ["check", "a", "--nonsense"],
        ["explain", "a", "--format", "png"],
        ["compare", "a", "--rows", "0"],
        ["compare", "a", "--rows", "many"],
        ["run", "a", "--for", "soon"],
        ["bench", "nonsense"],
        ["shed", "nonsense"],
        ["shed", "solve", "a"],
        ["shed", "plan", "a", "--max", "in=1", "--out", "b", "--epsilon", "much"],
    ],
)
def test_usage_errors_are_one_line_and_a_hint(invoke: Invoke, words: list[str]) -> None:
    result = invoke(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    error, hint = result.stderr.splitlines()
    assert error.startswith("error[")
    assert hint.startswith("  hint: ")


def test_a_missing_option_is_named(invoke: Invoke) -> None:
    error, hint = invoke("shed", "solve", "a").stderr.splitlines()
    assert error == "error[usage]: Missing option '--rates'"
    assert hint.endswith("shed solve --help")


@pytest.mark.parametrize("words", [[], ["shed"]])
def test_without_a_command_the_help_is_shown(invoke: Invoke, words: list[str]) -> None:
    result = invoke(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Usage:")


def test_schema_prints_the_json_schema(invoke: Invoke) -> None:
    assert json.loads(invoke("schema").stdout)["title"] == "Evenflow flow file"


def test_version_and_help(invoke: Invoke) -> None:
    assert invoke("--version").stdout == f"evenflow {evenflow.__version__}\n"
    shown = invoke("--help").stdout
    assert all(command in shown for command in COMMANDS)
    for command in COMMANDS:
        assert invoke(command, "--help").exit_code == 0


def test_every_command_is_documented() -> None:
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert [c for c in COMMANDS if f"`evenflow {c}" not in page] == []


# --- as a process ---------------------------------------------------------------------------------


def _evenflow(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "evenflow", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


@pytest.mark.slow
def test_help_answers_at_once() -> None:
    script = str(Path(sys.executable).with_name("evenflow"))
    best = float("inf")
    # The machine may be busy, or slow: work is timed, and compared with that of starting Python.
    for _ in range(10):
        most = max(0.3, 25 * _work([sys.executable, "-c", "pass"]))
        best = min(best, _work([script, "--help"]))
        if best < most:
            break
    assert best < most


def _work(command: list[str]) -> float:
    """Return the processor-seconds that a command takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.slow
def test_a_process_ends_with_the_exit_code(tmp_path: Path) -> None:
    good, bad = write(tmp_path, GOOD), tmp_path / "bad.yaml"
    bad.write_text("evenflow: 2\n", encoding="utf-8")
    assert _evenflow("check", str(good)).returncode == 0
    result = _evenflow("check", str(bad))
    assert (result.returncode, result.stdout) == (2, "")
    assert len(result.stderr.splitlines()) == 2


@pytest.mark.slow
@pytest.mark.parametrize("ignored", [False, True])
def test_a_process_that_is_told_to_end_does_as_on_ctrl_c(ignored: bool) -> None:
    """Also in the background of a shell, where Ctrl-C is ignored."""
    code = (
        "import signal, time\n"
        f"signal.signal(signal.SIGINT, signal.{'SIG_IGN' if ignored else 'default_int_handler'})\n"
        "from evenflow.cli.command import guarded\n"
        "@guarded\n"
        "def wait():\n    print('waits', flush=True)\n    time.sleep(60)\n"
        "try:\n    wait()\n"
        "except BaseException as exc:\n    raise SystemExit(exc.exit_code)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "waits\n"
        process.terminate()
        assert process.wait(30) == INTERRUPTED


@pytest.mark.slow
def test_a_closed_pipe_is_no_complaint(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [sys.executable, "-m", "evenflow", "explain", str(write(tmp_path, GOOD))],
        stdout=write_end,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        cwd=ROOT,
    )
    os.close(write_end)
    assert (done.returncode, done.stderr) == (141, "")


def _benchmark(result: dict[str, Any]) -> dict[str, Any]:
    return {
        "run": lambda quick, on_step, only: result,
        "verdict": lambda report: [f"{report['cases'][0]['queries']} queries: met"],
        "OPTIONS": ("case",),
    }


def test_bench_prints_cases_and_whether_the_bar_is_met(
    invoke: Invoke, shell: Callable[..., None]
) -> None:
    case = {"case": "same-keys", "queries": 50, "ratio": 20.5, "equal": True}
    result = {"bench": "sharing", "cases": [case]}
    shell("bench.sharing", **_benchmark(result))
    data = invoke("bench", "sharing", "--quick", "--json")
    assert (json.loads(data.stdout), data.stderr) == (result, "50 queries: met\n")
    assert invoke("bench", "sharing").stdout.splitlines() == [
        "case       queries  ratio  equal",
        "same-keys       50   20.5  yes",
        "50 queries: met",
    ]


def test_an_option_that_a_benchmark_does_not_have_is_refused(
    invoke: Invoke, shell: Callable[..., None]
) -> None:
    shell("bench.sharing", **_benchmark({"cases": [{"queries": 1}]}))
    done = invoke("bench", "sharing", "--for", "10m")
    assert done.exit_code == 2
    assert "has no option --for" in done.stderr
    assert invoke("bench", "sharing", "--case", "same-keys").exit_code == 0


def test_a_case_that_a_benchmark_does_not_have_is_refused() -> None:
    with pytest.raises(UserError, match="no such case"):
        sharing.run(quick=True, on_step=print, only=Only(case="same-keys"))


def test_what_fails_after_ctrl_c_is_no_fault() -> None:
    @guarded
    def broken_off() -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise RuntimeError("the connection that was broken off cannot be used")

    with pytest.raises(typer.Exit) as ended:
        broken_off()
    assert ended.value.exit_code == INTERRUPTED
