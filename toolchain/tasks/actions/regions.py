"""The regions of a partitioned model, read once for the stages of a build that need them."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import onnx_ir as ir

from toolchain.graph.files.stage_file import read_stage
from toolchain.graph.graph_region import GraphRegion
from toolchain.graph.regions import region_calls
from toolchain.schedule.backend import Backend, backend_of, load_backends
from toolchain.schedule.regions.region import Region
from toolchain.tasks.actions.paths import MachineKey, graph_file, graph_receipt, machine_keys, machine_named
from toolchain.tasks.stage import Job


@dataclass(frozen=True)
class Partitioned:
    """model: the last stage of the graph. regions: in the order of their calls, each with its machine."""

    model: ir.Model
    regions: tuple[tuple[Backend, Region | GraphRegion], ...]


def regions_of(job: Job) -> Partitioned:
    """Regions that machines compute of a model. Raises UserError E0001 where the graph is not built, E10xx."""
    receipt = graph_receipt(job)
    return _regions(graph_file(job), receipt.result if receipt else "", machine_keys(job))


def forget_regions() -> None:
    """Gives up what is kept: weights are large."""
    _regions.cache_clear()


@lru_cache(maxsize=1)
def _regions(path: Path, _result: str, keys: tuple[MachineKey, ...]) -> Partitioned:
    backends, model = load_backends([machine_named(key) for key in keys]), read_stage(path)
    calls = [(backend_of(backends, call), call) for call in region_calls(model)]
    return Partitioned(model, tuple((backend, backend.read(model, call)) for backend, call in calls))
