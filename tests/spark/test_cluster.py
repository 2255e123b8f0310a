"""A part of the run tests on a real small cluster: two executors in JVMs of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CASES = (
    "test_random.py::test_shared_answers_equal_plain_answers[0]",
    "test_sinks.py",
)


@pytest.mark.cluster
@pytest.mark.timeout(600)
@pytest.mark.skipif("EVENFLOW_MASTER" in os.environ, reason="this is that run already")
def test_runs_and_sinks_pass_on_a_cluster() -> None:
    """Executors see only what Spark ships to them; answers do not pass through the driver."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", *(str(HERE / c) for c in CASES)],
        capture_output=True,
        text=True,
        check=False,
        cwd=HERE.parent.parent,
        env={**os.environ, "EVENFLOW_MASTER": "local-cluster[2,1,1024]"},
    )
    assert done.returncode == 0, done.stdout[-3000:]
