"""An archive of Spark's classes, from which its JVM starts faster.

Before Spark's first answer a JVM reads ten thousand classes out of jars. An archive (Java's class
data sharing) has them as they are in memory. It holds for one Java and for class paths that begin
as the one it was made with; a JVM for which it does not hold goes on without it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from evenflow.errors import EnvironmentFaultError
from evenflow.spark.connector import kept_folder
from evenflow.spark.java import use_java

_SECONDS = 600
_QUICK = "-XX:TieredStopAtLevel=1"
"""The run is too short for code to be compiled well."""
_ROW = '{"id": 1, "ts": "2026-01-01T00:00:01Z", "kwh": 0.5}\n'
_FLOW = """\
evenflow: 1
flow: archive
sources:
  readings:
    format: json
    options: {path: data}
    schema: id BIGINT, ts TIMESTAMP, kwh DOUBLE
    event_time: ts
    watermark: 10 seconds
queries:
  sums:
    sql: >
      SELECT id, window(ts, '10 seconds') AS w, sum(kwh) AS kwh, count(*) AS readings
      FROM readings GROUP BY id, window(ts, '10 seconds')
    sink: {format: parquet, path: out}
"""
"""What a JVM does whose classes are archived."""


def archive_file() -> Path:
    """Return where the archive is kept: in the environment that Evenflow is installed in."""
    return kept_folder() / "spark.jsa"


def archive_flags() -> str:
    """Return the JVM's flags to start from the archive, if there is one."""
    file = archive_file()
    if not file.exists() or " " in str(file):
        return ""
    return f"-XX:SharedArchiveFile={file} -Xshare:auto -Xlog:cds*=off -Xlog:class+path*=off"


def make_archive() -> Path:
    """Make the archive anew, by a small run of Evenflow.

    Raises:
        EnvironmentFaultError: It could not be made.
    """
    use_java()
    file = archive_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    beside = file.with_suffix(".new")
    beside.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="evenflow-archive-") as folder:
        flow = Path(folder) / "flow.yaml"
        flow.write_text(_FLOW, encoding="utf-8")
        data = Path(folder) / "data"
        data.mkdir()
        (data / "one.json").write_text(_ROW, encoding="utf-8")
        # The JVM writes the archive when it ends, and holds what is captured until then.
        done = subprocess.run(
            [sys.executable, "-m", "evenflow", "run", str(flow), "--available-now", "--drain"],
            env={**os.environ, "SPARK_SUBMIT_OPTS": f"{_QUICK} -XX:ArchiveClassesAtExit={beside}"},
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    if done.returncode != 0 or not beside.exists():
        told = (done.stderr or done.stdout).strip().splitlines()
        raise EnvironmentFaultError(
            f"the archive could not be made: {told[-1][:200] if told else 'no reason was given'}"
        )
    beside.replace(file)
    return file
