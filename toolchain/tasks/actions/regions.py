"""The regions of a partitioned model, read once for the stages of a build that need them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import onnx_ir as ir

from toolchain.graph.files.stage_file import read_stage
from toolchain.graph.regions import region_calls
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.read_region import read_region
from toolchain.schedule.regions.region import Region
from toolchain.tasks.actions.paths import MachineKey, graph_file, machine_key, machine_named
from toolchain.tasks.receipts import read_receipt
from toolchain.tasks.stage import Job


@dataclass(frozen=True)
class Partitioned:
    """model: the last stage of the graph. regions: in the order of their calls."""

    model: ir.Model
    kernels: Mapping[str, Kernel]
    regions: tuple[Region, ...]


def regions_of(job: Job) -> Partitioned:
    """Regions that the machine computes of a model. Raises UserError E0001 where the graph is not built, E10xx."""
    receipt = read_receipt(job.folder / "graph.receipt.json")
    return _regions(graph_file(job), receipt.result if receipt else "", machine_key(job))


def forget_regions() -> None:
    """Gives up what is kept: weights are large."""
    _regions.cache_clear()


@lru_cache(maxsize=1)
def _regions(path: Path, _result: str, key: MachineKey) -> Partitioned:
    machine, model = machine_named(key), read_stage(path)
    kernels = load_kernels(machine)
    return Partitioned(model, kernels, tuple(read_region(machine, kernels, model, call) for call in region_calls(model)))
