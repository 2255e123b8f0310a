"""A real broker: one process in KRaft mode on loopback, from the jars of Maven Central."""

from __future__ import annotations

import shutil
import socket
import struct
import subprocess
import time
import uuid
from typing import TYPE_CHECKING

from evenflow.spark.connector import fetch, jars_folder
from evenflow.spark.java import use_java

if TYPE_CHECKING:
    from pathlib import Path

KAFKA = ("org.apache.kafka", "kafka_2.13", "4.1.0")
SECONDS = 60.0
PARTITIONS = 2
"""Of topics, which come into being when they are first written to."""
_JVM = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_SHELL = '"$@" & broker=$!; cat > /dev/null; kill -9 $broker; wait'
"""Runs the broker as long as somebody holds the other end of its input: never longer than us."""
_API_VERSIONS = 18
_CLUSTER = "ZXZlbmZsb3ctdGVzdGluZw"
_SETTINGS = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.quorum.voters=1@127.0.0.1:{control}
controller.listener.names=CONTROLLER
log.dirs={folder}/logs
num.partitions={partitions}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
# A broker that was killed may come back at once.
broker.session.timeout.ms=1000
broker.heartbeat.interval.ms=250
"""


class Broker:
    """A broker that can be killed and started again on the same ports and data."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._java = use_java() / "bin" / "java"
        self._port, control = _free_ports(2)
        self.servers = f"127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        settings = _SETTINGS.format(
            port=self._port, control=control, folder=folder, partitions=PARTITIONS
        )
        self._settings = folder / "server.properties"
        self._settings.write_text(settings)
        format_ = ("kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(self._settings))
        subprocess.run(self._command(*format_), check=True, capture_output=True, timeout=SECONDS)

    def start(self) -> None:
        """Start, and wait until it answers."""
        command = ["sh", "-c", _SHELL, "sh", *self._command("kafka.Kafka", str(self._settings))]
        with (self._folder / "output.txt").open("ab") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=output, stderr=output
            )
        deadline = time.monotonic() + SECONDS
        while not self._answers():
            assert self._process.poll() is None, (self._folder / "output.txt").read_text()
            assert time.monotonic() < deadline, "the broker does not answer"
            time.sleep(0.05)

    def kill(self) -> None:
        """End it without a warning."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(SECONDS)
        self._process = None

    def remove(self) -> None:
        """End it, and remove all that it kept."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _answers(self) -> bool:
        """Ask which versions of its protocol it speaks."""
        request = struct.pack(">hhih", _API_VERSIONS, 0, 1, -1)
        try:
            with socket.create_connection(("127.0.0.1", self._port), 1.0) as talk:
                talk.sendall(struct.pack(">i", len(request)) + request)
                return len(talk.recv(4)) == 4
        except OSError:
            return False

    def _command(self, *words: str) -> list[str]:
        return [str(self._java), *_JVM, "-cp", f"{broker_jars()}/*", *words]


def broker_jars() -> Path:
    """Return the folder of the broker's jars, fetched if they are not there."""
    folder = jars_folder() / "-".join(KAFKA[1:])
    if not folder.is_dir():
        beside = folder.with_name(f"_{folder.name}-{uuid.uuid4().hex}")
        fetch(*KAFKA, beside, transitive=True)
        try:
            beside.rename(folder)
        except OSError:  # somebody else was faster
            shutil.rmtree(beside)
    return folder


def _free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports
