"""Reading flow files: YAML to model to `Flow`, and every fault with its file, line and key."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVarTuple

from pydantic import BaseModel, ValidationError

from evenflow.base.paths import has_scheme
from evenflow.cli.flow_model import (
    VERSION,
    FlowModel,
    QueryModel,
    SinkModel,
    SourceModel,
    TableModel,
)
from evenflow.cli.model_fault import check_version, model_faults, one_or_all
from evenflow.cli.yaml_text import Document, KeyPath, read_yaml
from evenflow.errors import ConfigError, EvenflowError, QueryError
from evenflow.flow import Flow
from evenflow.model.query import OnError, Sink

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from evenflow.graph.graph import QueryOptions

Ts = TypeVarTuple("Ts")

NOT_YET: dict[KeyPath, tuple[str, str]] = {
    ("conditions",): ("conditions are not supported yet", "leave them out")
}


def read_flow(path: Path, base: Path | None = None) -> Flow:
    """Return the flow that a file describes.

    Args:
        path: The file.
        base: Directory that relative paths resolve against; the file's own if not given.

    Raises:
        ConfigError: The file is wrong; a `FileError` with all faults if there are several.
        QueryError: Its only fault is one of its queries.
    """
    document = read_yaml(path)
    model = _model(document)
    builder = _FlowBuilder(document, model, (base or path.parent).absolute())
    return builder.build()


def _model(document: Document) -> FlowModel:
    check_version(document, "flow file", VERSION)
    try:
        return FlowModel.model_validate(document.data)
    except ValidationError as exc:
        raise one_or_all(document, model_faults(document, exc, _model_at, NOT_YET)) from exc


def _model_at(keys: KeyPath) -> type[BaseModel]:
    match keys:
        case ("sources", _):
            return SourceModel
        case ("tables", _):
            return TableModel
        case ("queries", _):
            return QueryModel
        case ("queries", _, *_):
            return SinkModel
    return FlowModel


# --- from the model to a flow ---------------------------------------------------------------------


class _FlowBuilder:
    """Builds a flow from a model and gathers faults on the way."""

    def __init__(self, document: Document, model: FlowModel, base: Path) -> None:
        self._document = document
        self._model = model
        self._base = base
        self._faults: list[EvenflowError] = []
        state = model.state or f".evenflow/{model.flow}"
        self._flow = Flow(model.flow, self._resolved(state))

    def build(self) -> Flow:
        for name, source in self._model.sources.items():
            self._collect(("sources", name), self._source, name, source)
        for name, table in self._model.tables.items():
            self._collect(("tables", name), self._table, name, table)
        options: dict[str, QueryOptions] = {}
        for name, query in self._model.queries.items():
            self._collect(("queries", name), self._ask, name, query, options)
        if not self._faults:
            self._queries(options)
        if not self._faults:
            self._collect(("queries",), self._flow.spec)
        if self._faults:
            raise one_or_all(self._document, self._faults)
        return self._flow

    def _collect(self, keys: KeyPath, step: Callable[[*Ts], object], *args: *Ts) -> None:
        try:
            step(*args)
        except (ConfigError, QueryError) as exc:
            # The key path already says which one it is.
            message = re.sub(r"^(source|table|query) \S+: ", "", exc.message)
            self._faults.append(self._document.error(keys, message, exc.hint))

    def _source(self, name: str, model: SourceModel) -> None:
        self._flow.source(
            name,
            model.format,
            self._located(model.options),
            model.columns,
            event_time=model.event_time,
            watermark=model.watermark,
            id=model.id,
        )

    def _table(self, name: str, model: TableModel) -> None:
        path = None if model.path is None else self._resolved(model.path)
        self._flow.table(name, model.format, path, self._located(model.options), model.columns)

    def _ask(self, name: str, model: QueryModel, options: dict[str, QueryOptions]) -> None:
        sinks = [model.sink] if model.sink is not None else model.sinks
        options[name] = {
            "weight": model.weight,
            "floor": model.floor,
            "every": model.every,
            "deadline": model.deadline,
            "on_error": OnError(model.on_error),
            "sinks": tuple(self._sink(each) for each in sinks),
        }

    def _sink(self, model: SinkModel) -> Sink:
        if model.format == "callback":
            raise ConfigError("a callback sink can be given in Python only", "use Flow.sql")
        path = None if model.path is None else self._resolved(model.path)
        return Sink(model.format, path, {k: str(v) for k, v in model.options.items()})

    def _queries(self, options: Mapping[str, QueryOptions]) -> None:
        """Add the queries; those that are wrong are left out one by one, to find all faults."""
        texts = {name: query.sql for name, query in self._model.queries.items()}
        wrong: set[str] = set()
        while texts:
            try:
                self._flow.graph.add_sql(texts, options=options)
                return
            except QueryError as exc:
                if exc.query not in texts:
                    self._faults.append(exc)
                    return
                if not _is_consequence(exc, wrong):
                    self._faults.append(exc)
                wrong.add(exc.query.lower())
                del texts[exc.query]

    def _located(self, options: Mapping[str, Any]) -> dict[str, Any]:
        return {
            key: self._resolved(str(value)) if key.lower() == "path" else value
            for key, value in options.items()
        }

    def _resolved(self, path: str) -> str:
        """Return a path that holds from any directory. Addresses stay as they are."""
        return path if has_scheme(path) else str(self._base / path)


def _is_consequence(fault: QueryError, wrong: set[str]) -> bool:
    """Whether a stream is unknown only because its own query is wrong."""
    if fault.code != "stream.unknown" or fault.text is None or fault.position is None:
        return False
    named = re.match(r"[`\w-]+", fault.text[fault.position :])
    return named is not None and named.group().strip("`").lower() in wrong
