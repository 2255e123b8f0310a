"""Where the tuples of a case come from. A file is a batch, whatever carries it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

from evenflow.spark.unit.checkpoint import HEADER
from tests.spark.lives import has_read

if TYPE_CHECKING:
    from pathlib import Path

    from tests.spark.kill.case import KilledSet


class Input(Protocol):
    """Where the tuples of a case come from. A batch reads what was laid at once."""

    def source(self) -> dict[str, Any]:
        """Return the source's entry in the flow file, without schema and times."""
        ...

    def lay(self, file: int) -> None:
        """Have the flow read the tuples of a file, as one batch."""
        ...

    def has_read(self, checkpoint: Path, file: int) -> bool:
        """Whether a unit has committed a file, and no later one."""
        ...

    def forget_unplanned(self, checkpoint: Path) -> None:
        """Take back what Spark has noted of a file before it has planned the batch of it.

        A batch of the next life would read that file and the one after it. This is what there
        would be if the process had been killed a moment earlier.
        """
        return


class FileInput(Input):
    """The files themselves."""

    def __init__(self, set_: KilledSet) -> None:
        self._set = set_

    def source(self) -> dict[str, Any]:
        """Return a source that reads one file per batch."""
        path = str(self._set.folder / "in")
        return {"format": "parquet", "options": {"path": path, "maxFilesPerTrigger": 1}}

    def lay(self, file: int) -> None:
        """Put the file where the flow reads."""
        self._set._lay(file)

    def has_read(self, checkpoint: Path, file: int) -> bool:
        """Whether the offsets say so."""
        return has_read(checkpoint, file)

    def forget_unplanned(self, checkpoint: Path) -> None:
        """Take back what stands in the log of the source and in no offset."""
        planned = [int(file.name) for file in (checkpoint / "offsets").glob("[0-9]*")]
        last = -1
        if planned:
            lines = (checkpoint / "offsets" / str(max(planned))).read_text().splitlines()
            offset = lines[HEADER]
            last = -1 if offset == "-" else json.loads(offset)["logOffset"]
        for file in (checkpoint / "sources" / "0").glob("[0-9]*"):
            if int(file.name.removesuffix(".compact")) > last:
                file.unlink()
                file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
