"""Flow files for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

GOOD = """\
evenflow: 1
flow: metering
sources:
  readings:
    format: json
    options: {path: in}
    schema: id BIGINT, meter STRING, ts TIMESTAMP, kwh DOUBLE
    event_time: ts
    watermark: 10 seconds
    id: id
tables:
  sites:
    format: csv
    path: ref/sites
    schema: meter STRING, kind STRING
queries:
  heavy:
    sql: >
      SELECT meter, window(ts, '1 hour') AS w, sum(kwh) AS kwh
      FROM readings WHERE kwh > 0 GROUP BY meter, window(ts, '1 hour') HAVING sum(kwh) > 8
    weight: 3
    floor: 0.2
    every: 2 seconds
    deadline: 5 seconds
    on_error: quarantine
    sink: {format: parquet, path: out/heavy}
  positive:
    sql: SELECT id, meter, kwh FROM readings WHERE 0 < kwh
    sinks:
    - {format: json, path: out/positive}
    - {format: console}
"""


def write(directory: Path, text: str) -> Path:
    path = directory / "flow.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def changed(old: str, new: str, text: str = GOOD) -> str:
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times"
    return text.replace(old, new)
