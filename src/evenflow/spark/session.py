"""Sessions: ours, tuned and locked down, and the user's, of which we take a session of our own."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from evenflow.errors import EnvironmentFaultError
from evenflow.spark.archive import archive_flags
from evenflow.spark.connector import kafka_jars
from evenflow.spark.interrupt import put_off_interrupt
from evenflow.spark.java import use_java

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

SQL_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    # The default manager forks a process for every file on a local disk.
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming."
    "checkpointing.FileSystemBasedCheckpointFileManager",
    "spark.sql.streaming.numRecentProgressUpdates": "200",
    # Such functions, straight over a columnar scan, hang for ever in 4.2.0 (SPARK-58241).
    "spark.sql.execution.pythonUDF.arrow.enabled": "false",
}
"""What Evenflow's answers and speed rely on; set on every session that it works with."""

_JVM_FLAGS = "-XX:-DontCompileHugeMethods -XX:+UseParallelGC"
"""Generated methods above 8,000 bytecodes are compiled too. The stack keeps its own small; what
Spark generates around it may not be."""


def make_session(
    name: str = "evenflow",
    master: str | None = None,
    *,
    compile_large_methods: bool = True,
    settings: dict[str, str] | None = None,
) -> SparkSession:
    """Return a session of ours on an embedded Spark, or on `master`.

    Raises:
        EnvironmentFaultError: There is no Java to run it, or a session that is not ours.
    """
    use_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession  # noqa: PLC0415  # reads the environment set above

    if SparkSession.getActiveSession() is not None:
        raise EnvironmentFaultError(
            "this process has a Spark session already", "hand it in: flow.start(spark)"
        )
    cores = os.cpu_count() or 2
    made = {
        **SQL_SETTINGS,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Spark remembers a thousand of each for its UI, plans of many queries among them, also
        # where there is none: memory that would grow for half an hour.
        "spark.sql.ui.retainedExecutions": "50",
        "spark.ui.retainedJobs": "100",
        "spark.ui.retainedStages": "100",
        "spark.ui.retainedTasks": "1000",
        "spark.log.level": "ERROR",
        "spark.driver.memory": os.environ.get("EVENFLOW_DRIVER_MEMORY", "2g"),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(min(cores, 8)),
        "spark.sql.warehouse.dir": str(_scratch() / "warehouse"),
        "spark.sql.restrictedMode.enabled": "true",
        "spark.sql.streaming.stopTimeout": "60s",
        # Noting where each column was made asks the JVM ten times per column: half of building.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
    }
    if compile_large_methods:
        made["spark.driver.extraJavaOptions"] = _JVM_FLAGS
        made["spark.executor.extraJavaOptions"] = _JVM_FLAGS
    master = master or f"local[{cores}]"
    jars = [str(jar) for jar in kafka_jars()]
    if not is_one_process(master):
        # In one process the class path is enough; shipping jars to it takes half a second.
        made.update({"spark.jars": ",".join(jars)} if jars else {})
        jars = []
    made.update(settings or {})
    own = "spark.driver.extraJavaOptions"
    made[own] = f"{made.get(own, '')} {archive_flags()}".strip()
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in made.items():
        builder = builder.config(key, value)
    with put_off_interrupt(all_=True) as interrupted, _class_path(jars):
        session = builder.getOrCreate()
    if interrupted.is_set():
        session.stop()
        raise KeyboardInterrupt
    if threading.current_thread() is threading.main_thread():
        # PySpark's handler would cancel the running batch. Ctrl-C ends ours after it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return session


@contextmanager
def _class_path(jars: list[str]) -> Iterator[None]:
    """Have a JVM that is started meanwhile find jars behind Spark's own.

    Before them, which is where Spark's setting puts jars, the archive of classes would not hold.
    """
    name = "SPARK_DIST_CLASSPATH"
    before = os.environ.get(name)
    if jars:
        os.environ[name] = os.pathsep.join([before, *jars] if before else jars)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before


def is_one_process(master: str) -> bool:
    """Whether executors run in the driver's process."""
    return master == "local" or master.startswith("local[")


def own_session(session: SparkSession) -> SparkSession:
    """Return a session of our own beside a user's: same Spark, other settings, its own views."""
    own = session.newSession()
    for key, value in SQL_SETTINGS.items():
        own.conf.set(key, value)
    return own


def _scratch() -> Path:
    return Path(tempfile.gettempdir()) / f"evenflow-{os.getuid()}"
