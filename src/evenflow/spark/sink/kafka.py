"""Answers as records of a topic, through Spark's own Kafka sink. At least once, with ids.

The value is the answer as the json sink writes it. Headers name the query and carry an id that is
the same when a batch is done again after a crash.
"""

from __future__ import annotations

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
_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
_RECORD = pa.schema(
    [
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
        self._session = session
        self._query = query.name
        self._origin = f"{state_id}/{query.name}"
        key = kafka.option(sink.options, kafka.KEY)
        found = None if key is None else query.schema.find(key)
        self._key = None if found is None else found.name
        own = {n: text for n, text in sink.options.items() if n.lower() != kafka.KEY}
        self._options = with_defaults(own, _PATIENCE)
        self._check_connector()

    def write(self, answers: pa.Table, unit: str, batch: int) -> None:
        """Write the answers of a batch, again if it is done again.

        Raises:
            SinkError: The broker did not take all of them in time.
        """
        rows = answers.to_pylist()
        ids = answer_ids(rows, f"{self._origin}/{unit}/{batch}")
        records = [self._record(row, id_) for row, id_ in zip(rows, ids, strict=True)]
        table = pa.Table.from_pylist(records, schema=_RECORD)
        try:
            frame = self._session.createDataFrame(table)
            frame.write.format(kafka.FORMAT).options(**self._options).save()
        except (PySparkException, Py4JJavaError) as exc:
            topic = kafka.option(self._options, kafka.TOPIC)
            raise SinkError(
                f"cannot write to topic {topic}: {failure_of(str(exc)).reason}"
            ) from exc

    def _record(self, row: dict[str, Any], id_: str) -> dict[str, Any]:
        headers = [
            {"key": ID, "value": id_.encode()},
            {"key": QUERY, "value": self._query.encode()},
        ]
        key = None if self._key is None else _key_text(row[self._key])
        return {"key": key, "value": json_text(row), "headers": headers}

    def _check_connector(self) -> None:
        """Find out whether Spark knows Kafka, before there are answers. Nothing is contacted."""
        servers = str(kafka.option(self._options, kafka.SERVERS))
        stream = self._session.readStream.format(kafka.FORMAT)
        try:
            stream.option(kafka.SERVERS, servers).option("subscribe", "none").load()
        except (PySparkException, Py4JJavaError) as exc:
            raise ConfigError(f"query {self._query}: {NO_CONNECTOR}", CONNECTOR_HINT) from exc


def _key_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json_text(value).strip('"')
