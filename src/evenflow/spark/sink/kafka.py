"""Answers as records of a topic, through Spark's own Kafka sink. At least once, with ids.

The value is the answer as the json sink writes it. Headers name the query and carry an id that is
the same when a batch is done again after a crash.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from evenflow.errors import ConfigError, InternalError, SinkError
from evenflow.model import kafka
from evenflow.spark.connector import CONNECTOR_HINT, NO_CONNECTOR
from evenflow.spark.sink.answer_id import answer_ids
from evenflow.spark.sink.answer_sink import DriverSink
from evenflow.spark.sink.files import json_text
from evenflow.spark.source.kafka import with_defaults
from evenflow.spark.unit.failure import failure_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from evenflow.model.query import Query, Sink

ID = "evenflow-id"
QUERY = "evenflow-query"
"""Headers of a record: the id of the answer, and whose answer it is."""
_PATIENCE = (
    {"kafka.max.block.ms": "15000"},
    # Kafka refuses a delivery that may take less time than a request.
    {"kafka.delivery.timeout.ms": "20000", "kafka.request.timeout.ms": "10000"},
)
"""How long a batch waits for a broker that is away, before its query is quarantined. Of each group
all are set, or none if the user gives one."""
_REACH_SECONDS = 2.0
_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
_RECORD = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("key", pa.string()),
        pa.field("value", pa.string()),
        pa.field("headers", pa.list_(_HEADER)),
    ]
)


class KafkaSink(DriverSink):
    """Records of one topic."""

    def __init__(
        self, sink: Sink, query: Query, state_id: str, session: SparkSession | None
    ) -> None:
        if session is None:
            raise InternalError("a kafka sink was opened without a session")
        self.session = session
        self._query = query.name
        self._origin = f"{state_id}/{query.name}"
        self.topic = str(kafka.option(sink.options, kafka.TOPIC))
        key = kafka.option(sink.options, kafka.KEY)
        found = None if key is None else query.schema.find(key)
        self._key = None if found is None else found.name
        own = (kafka.TOPIC, kafka.KEY)
        given = {name: text for name, text in sink.options.items() if name.lower() not in own}
        self.options = with_defaults(given, _PATIENCE)
        """What Spark is told. Sinks of which this is the same are written in one job."""
        self._check_connector()

    def write(self, answers: pa.Table, unit: str, batch: int) -> None:
        """Write the answers of a batch, again if it is done again.

        Raises:
            SinkError: The broker did not take all of them in time.
        """
        self.send(self.records(answers, unit, batch))

    def records(self, answers: pa.Table, unit: str, batch: int) -> pa.Table:
        """Return the answers of a batch as records."""
        rows = answers.to_pylist()
        ids = answer_ids(rows, f"{self._origin}/{unit}/{batch}")
        made = [self._record(row, id_) for row, id_ in zip(rows, ids, strict=True)]
        return pa.Table.from_pylist(made, schema=_RECORD)

    def send(self, records: pa.Table) -> None:
        """Write records, also those of other sinks on the same servers.

        Raises:
            SinkError: The broker did not take all of them in time.
        """
        try:
            frame = self.session.createDataFrame(records)
            frame.write.format(kafka.FORMAT).options(**self.options).save()
        except (PySparkException, Py4JJavaError) as exc:
            raise SinkError(
                f"cannot write to topic {self.topic}: {failure_of(str(exc)).reason}"
            ) from exc

    def _record(self, row: dict[str, Any], id_: str) -> dict[str, Any]:
        headers = [
            {"key": ID, "value": id_.encode()},
            {"key": QUERY, "value": self._query.encode()},
        ]
        key = None if self._key is None else _key_text(row[self._key])
        return {"topic": self.topic, "key": key, "value": json_text(row), "headers": headers}

    def _check_connector(self) -> None:
        """Find out whether Spark knows Kafka, before there are answers. Nothing is contacted."""
        stream = self.session.readStream.format(kafka.FORMAT)
        try:
            stream.option(kafka.SERVERS, self.servers).option("subscribe", "none").load()
        except (PySparkException, Py4JJavaError) as exc:
            raise ConfigError(f"query {self._query}: {NO_CONNECTOR}", CONNECTOR_HINT) from exc

    @property
    def servers(self) -> str:
        """Where the broker is."""
        return str(kafka.option(self.options, kafka.SERVERS))


def write_together(parts: Sequence[tuple[KafkaSink, pa.Table]], unit: str, batch: int) -> bool:
    """Write the answers of several queries to the same servers: fifty queries are not fifty jobs.

    Returns:
        Whether that worked. If not, write each alone, to find out whose fault it is; what was
        written is then written again, with the same ids.

    Raises:
        SinkError: Nobody is there. Whatever is written alone fails as well.
    """
    first = parts[0][0]
    try:
        first.send(pa.concat_tables([s.records(answers, unit, batch) for s, answers in parts]))
    except Exception as exc:  # whose it is, and what, is found out alone
        if not _reachable(first.servers):
            raise SinkError(f"cannot write to Kafka: {first.servers} is away") from exc
        return False
    return True


def _reachable(servers: str) -> bool:
    """Whether one of some servers takes a connection."""
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        with suppress(OSError, ValueError):
            socket.create_connection((host.strip("[]"), int(port)), _REACH_SECONDS).close()
            return True
    return False


def _key_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json_text(value).strip('"')
