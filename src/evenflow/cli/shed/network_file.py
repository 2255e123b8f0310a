"""Reading network files: YAML to model to `Network`; every fault with its file, line and key."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel, ValidationError

from evenflow.cli.model_fault import check_version, model_faults, one_or_all
from evenflow.cli.shed.network_model import (
    VERSION,
    NetworkModel,
    NetworkOperatorModel,
    NetworkQueryModel,
    NodeModel,
    RateModel,
)
from evenflow.cli.yaml_text import Document, KeyPath, read_yaml
from evenflow.errors import EvenflowError, FileError, NetworkError
from evenflow.shed.network_data import network_from_data
from evenflow.shed.workload import Distribution, Workload, exponential, histogram

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from evenflow.shed.network import Network

_SECTIONS = ("nodes", "operators", "queries")


@dataclass(frozen=True)
class NetworkFile:
    """What a network file says."""

    network: Network
    workload: Workload
    document: Document

    @contextmanager
    def located(self) -> Iterator[None]:
        """Tell what is wrong with the network for a planner with the file and line it is in."""
        try:
            yield
        except NetworkError as exc:
            if not exc.place or exc.place[0] not in _SECTIONS:
                raise
            raise _located(self.document, exc) from exc


def read_network(path: Path) -> NetworkFile:
    """Return what a file describes.

    Raises:
        ConfigError: The file is wrong; a `FileError` with all faults if there are several.
    """
    document = read_yaml(path)
    check_version(document, "network file", VERSION)
    try:
        model = NetworkModel.model_validate(document.data)
    except ValidationError as exc:
        raise one_or_all(document, model_faults(document, exc, _model_at, {})) from exc
    data = model.model_dump(exclude_none=True)
    try:
        network = network_from_data(data)
    except (NetworkError, FileError) as exc:
        found = exc.faults if isinstance(exc, FileError) else (exc,)
        raise one_or_all(document, [_located(document, each) for each in found]) from exc
    return NetworkFile(network, _workload(document, model, network), document)


def _workload(document: Document, model: NetworkModel, network: Network) -> Workload:
    faults: list[EvenflowError] = []
    found: dict[str, Distribution] = {}
    for name, each in model.rates.items():
        place: KeyPath = ("rates", name)
        try:
            if name not in network.inputs:
                raise NetworkError("input.unknown", "is no input", place)
            found[name] = (
                exponential(each.exponential, (*place, "exponential"))
                if each.histogram is None
                else histogram(each.histogram, (*place, "histogram"))
            )
        except NetworkError as exc:
            faults.append(_located(document, exc))
    if faults:
        raise one_or_all(document, faults)
    return Workload(found)


def _located(document: Document, fault: EvenflowError) -> EvenflowError:
    """Return a fault of a network with the line it is in."""
    if not isinstance(fault, NetworkError):
        return fault
    return NetworkError(fault.code, document.told(fault.place, fault.message), (), fault.hint)


def _model_at(keys: KeyPath) -> type[BaseModel]:
    match keys:
        case ("nodes", _):
            return NodeModel
        case ("operators", _):
            return NetworkOperatorModel
        case ("queries", _):
            return NetworkQueryModel
        case ("rates", _):
            return RateModel
    return NetworkModel
