"""What a build left, read back for verification and reports."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx_ir as ir

from toolchain.graph.stage_file import read_stage
from toolchain.runtime.bundle import read_bundle
from toolchain.runtime.contents import Bundle
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.spec.errors import fail
from toolchain.spec.model import Machine


@dataclass(frozen=True)
class Built:
    """floating: the stage before fusion. integer: before partitioning. partitioned: the last, whose regions are in the bundle.

    place: the bundle's path as messages print it.
    """

    machine: Machine
    kernels: Mapping[str, Kernel]
    floating: ir.Model
    integer: ir.Model
    partitioned: ir.Model
    bundle: Bundle
    place: str = ""


def read_built(machine: Machine, stages: Path, bundle: Path) -> Built:
    """stages: the folder of the graph's stages, NN-PASS.onnx. Raises UserError E0001 for what is missing, E11xx for a bundle that cannot be read."""
    floating, integer = (read_stage(stage_before(stages, name)) for name in ("fuse", "partition"))
    partitioned = read_stage(stage_files(stages)[-1])
    return Built(machine, load_kernels(machine), floating, integer, partitioned, read_bundle(bundle), str(bundle))


def stage_files(folder: Path) -> list[Path]:
    """The stages in their order. Raises UserError E0001 where there is none."""
    found = sorted(path for path in folder.glob("[0-9][0-9]-*.onnx"))
    if not found:
        raise fail("E0001", "there are no stages of a graph here", hint="build the model first", place=str(folder))
    return found


def stage_before(folder: Path, name: str) -> Path:
    """The last stage before the pass of that name first ran; the last of all where it never did."""
    files = stage_files(folder)
    numbers = [number for number, path in enumerate(files) if path.stem.partition("-")[2] == name]
    return files[max(numbers[0] - 1, 0)] if numbers else files[-1]
