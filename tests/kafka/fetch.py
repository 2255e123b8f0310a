"""Fetch the jars that tests with a broker need while others run: they wait for nothing then.

`python -m tests.kafka.fetch`. What cannot be fetched here is tried again by these tests.
"""

from __future__ import annotations

import sys

from evenflow.errors import EvenflowError
from evenflow.spark.connector import fetch_kafka
from tests.kafka.broker import broker_jars


def main() -> None:
    try:
        fetch_kafka(lambda step: print(step, file=sys.stderr))
        broker_jars()
    except EvenflowError as exc:
        print(exc, file=sys.stderr)


if __name__ == "__main__":
    main()
