"""The process that is killed: a flow that runs until it is asked to stop, full of points.

Arguments: the flow file, the file that arms a point, and faults to plant. With `surge` among these
it has the control loop, and records what batches do.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

from evenflow.cli.flow_file import read_flow
from evenflow.spark.run import run_flow
from evenflow.spark.session import SQL_SETTINGS, make_session
from tests.conftest import INTERPRETED, QUICK_JVM
from tests.spark.kill.faults import FAULTS
from tests.spark.kill.points import put_points
from tests.spark.kill.surging import surging
from tests.spark.lives import NO_DATA

SURGE = "surge"
_SETTINGS = {NO_DATA: "false", **INTERPRETED}


def _end_with_parent() -> None:
    """Die when the test is gone, which holds the other end of standard input."""
    sys.stdin.read()
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    """Run."""
    flow, armed, *faults = sys.argv[1:]
    threading.Thread(target=_end_with_parent, daemon=True).start()
    SQL_SETTINGS.update(_SETTINGS)
    found = read_flow(Path(flow))
    beside = surging(Path(flow).parent, found.state) if SURGE in faults else None
    for fault in faults:
        if fault != SURGE:
            FAULTS[fault]()
    put_points(Path(armed))
    session = make_session(settings={"spark.driver.extraJavaOptions": QUICK_JVM})
    run_flow(found.spec(), state=found.state, session=session, beside=beside)
    session.stop()


if __name__ == "__main__":
    main()
