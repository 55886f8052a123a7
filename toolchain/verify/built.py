"""What a build left, read back for verification and reports."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx_ir as ir

from toolchain.graph.stage_file import read_stage
from toolchain.passes.truth import Given, open_given
from toolchain.runtime.bundle import read_bundle
from toolchain.runtime.contents import Bundle
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.spec.errors import fail
from toolchain.spec.model import Machine


@dataclass(frozen=True)
class Built:
    """given: the network as the user gave it; plain: the same without ONNX Runtime's own rewriting. floats: every float stage by its name, in order.

    floating: the last of them before fusion. integer: before partitioning. partitioned: the last, whose regions are in the bundle.
    place: the bundle's path as messages print it.
    """

    machine: Machine
    kernels: Mapping[str, Kernel]
    given: Given
    plain: Given
    floats: Mapping[str, ir.Model]
    floating: ir.Model
    integer: ir.Model
    partitioned: ir.Model
    bundle: Bundle
    place: str = ""


def read_built(machine: Machine, stages: Path, bundle: Path, file: Path) -> Built:
    """stages: the folder of the graph's stages, NN-PASS.onnx. file: the model as the user gave it.

    Raises UserError E0001 for what is missing, E0910 where ONNX Runtime takes neither file nor first stage, E11xx for a bundle that cannot be read.
    """
    files = stage_files(stages)
    last = stage_before(stages, "quantize")
    floats = {path.stem: read_stage(path) for path in files[: files.index(last) + 1]}
    floating, integer = floats[stage_before(stages, "fuse").stem], read_stage(stage_before(stages, "partition"))
    given, plain = (open_given(file, files[0], str(file), optimise) for optimise in (True, False))
    return Built(machine, load_kernels(machine), given, plain, floats, floating, integer, read_stage(files[-1]), read_bundle(bundle), str(bundle))


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
