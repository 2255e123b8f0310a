"""`evenflow setup`: what a connector needs that Spark's wheel does not have."""

from __future__ import annotations

from typing import Annotated

import typer

from evenflow.cli.command import AsJson, Verbose, guarded, put_json, say
from evenflow.errors import ConfigError


@guarded
def setup(
    what: Annotated[str, typer.Argument(metavar="WHAT", help="kafka.")],
    as_json: AsJson = False,
    verbose: Verbose = False,  # noqa: ARG001  # read by `guarded`
) -> None:
    """Fetch the jars of a connector into this environment. What is there is not fetched again.

    Raises:
        ConfigError: Nothing can be set up under that name.
    """
    if what != "kafka":
        raise ConfigError(f"{what[:40]} cannot be set up", "there is kafka")
    from evenflow.spark.connector import fetch_kafka

    jars = fetch_kafka(say)
    say(f"the Kafka connector is there: {len(jars)} jars in {jars[0].parent}")
    if as_json:
        put_json({"jars": [str(jar) for jar in jars]})
