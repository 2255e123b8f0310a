"""`evenflow setup`: what Spark's wheel does not have."""

from __future__ import annotations

from typing import Annotated

import typer

from evenflow.cli.command import AsJson, Verbose, guarded, put_json, say
from evenflow.errors import ConfigError


@guarded
def setup(
    what: Annotated[str, typer.Argument(metavar="WHAT", help="kafka or archive.")],
    as_json: AsJson = False,
    verbose: Verbose = False,  # noqa: ARG001  # read by `guarded`
) -> None:
    """Add to this environment what Spark comes without.

    kafka fetches the jars of the Kafka connector; what is there is not fetched again. archive
    makes an archive of Spark's classes, so that it starts faster: make it anew after another Java.

    Raises:
        ConfigError: Nothing can be set up under that name.
    """
    match what:
        case "kafka":
            from evenflow.spark.connector import fetch_kafka

            jars = fetch_kafka(say)
            say(f"the Kafka connector is there: {len(jars)} jars in {jars[0].parent}")
            found: dict[str, object] = {"jars": [str(jar) for jar in jars]}
        case "archive":
            from evenflow.spark.archive import make_archive

            say("archiving Spark's classes, which takes a minute")
            file = make_archive()
            say(f"the archive is there: {file}, {file.stat().st_size >> 20} MB")
            found = {"archive": str(file)}
        case _:
            raise ConfigError(f"{what[:40]} cannot be set up", "there are kafka and archive")
    if as_json:
        put_json(found)
