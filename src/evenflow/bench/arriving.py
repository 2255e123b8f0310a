"""Tuples that arrive as files, from a process that waits for nobody.

A few times per second the process writes the tuples whose time has come, as one parquet file.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from evenflow.bench.live import SECOND_US, Arrivals
from evenflow.bench.own_process import given_task

if TYPE_CHECKING:
    from collections.abc import Iterator

_FILE_SECONDS = 0.2


@contextmanager
def arriving(arrivals: Arrivals, folder: Path) -> Iterator[None]:
    """Have tuples arrive in a folder."""
    folder.mkdir(parents=True)
    task = json.dumps({"arrivals": asdict(arrivals), "folder": str(folder)})
    process = subprocess.Popen([sys.executable, "-m", "evenflow.bench.arriving", task])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def write(arrivals: Arrivals, ids: range, file: Path) -> None:
    """Write tuples into a file, which is there when it is whole."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet

    numbers = np.arange(ids.start, ids.stop, dtype=np.int64)
    # As `Arrivals.at_us`, in steps that fit 64 bits.
    seconds, rest = np.divmod(numbers, arrivals.rate)
    times = pa.array(seconds * SECOND_US + rest * SECOND_US // arrivals.rate)
    table = pa.table({"id": numbers, "ts": times.cast(pa.timestamp("us", tz="UTC"))})
    beside = file.with_name(f"_{file.name}")
    pyarrow.parquet.write_table(table, beside, compression="none", use_dictionary=False)
    beside.rename(file)


def main() -> None:
    """Write files until whoever has started this process is gone, or ends it."""
    task = given_task()
    arrivals, folder = Arrivals(**task["arrivals"]), Path(task["folder"])
    parent, number = os.getppid(), 0
    at = time.time()
    written = arrivals.first_from(round(at * SECOND_US))
    while os.getppid() == parent:
        at += _FILE_SECONDS
        time.sleep(max(0.0, at - time.time()))
        arrived = arrivals.first_from(round(time.time() * SECOND_US))
        write(arrivals, range(written, arrived), folder / f"{number:08d}.parquet")
        written, number = arrived, number + 1


if __name__ == "__main__":
    main()
