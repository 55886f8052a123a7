"""The files of a build, read back for verification and reports."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import onnx_ir as ir

from toolchain.graph.store import read_stage
from toolchain.passes.join_recurrent import join_as
from toolchain.passes.truth import Given, open_given
from toolchain.runtime.bundle import read_bundle
from toolchain.runtime.contents import Bundle
from toolchain.schedule.backend import Backend, backend_of, load_backends
from toolchain.spec.errors import fail
from toolchain.spec.model import Machine


@dataclass(frozen=True)
class Built:
    """backends: the first choice first. file: the model as the user gave it. stages: the folder of the graph's stages. integer: before partitioning,
    but with the recurrent layers whole that partitioning left to the host. partitioned: the last, whose regions are in the bundle. place: the
    bundle's path as messages print it.

    All else is read when it is first asked for: a summary needs little.
    """

    backends: tuple[Backend, ...]
    file: Path
    stages: Path
    integer: ir.Model
    partitioned: ir.Model
    bundle: Bundle
    place: str = ""

    @property
    def machine(self) -> Machine:
        """The first choice."""
        return self.backends[0].machine

    @property
    def machines(self) -> dict[str, Machine]:
        """By name, the first choice first."""
        return {backend.machine.name: backend.machine for backend in self.backends}

    def backend(self, call: ir.Node) -> Backend:
        """The machine of a region, with its kernels."""
        return backend_of(self.backends, call)

    @cached_property
    def given(self) -> Given:
        """The file in ONNX Runtime. Raises UserError E0910 where it takes neither the file nor the first stage."""
        return self._given(optimise=True)

    @cached_property
    def plain(self) -> Given:
        """The model's session without ONNX Runtime's own rewriting."""
        return self._given(optimise=False)

    @cached_property
    def floats(self) -> Mapping[str, ir.Model]:
        """Every float stage by its name, in order."""
        files = stage_files(self.stages)
        return {path.stem: read_stage(path) for path in files[: files.index(stage_before(self.stages, "quantize", "partition")) + 1]}

    @cached_property
    def floating(self) -> ir.Model:
        """The last float stage before fusion."""
        return read_stage(stage_before(self.stages, "fuse", "partition"))

    def _given(self, optimise: bool) -> Given:
        return open_given(self.file, stage_files(self.stages)[0], str(self.file), optimise)


def read_built(machines: Sequence[Machine], stages: Path, bundle: Path, file: Path) -> Built:
    """machines: the first choice first. stages: the folder of the graph's stages, NN-PASS.onnx. file: the model as the user gave it.

    Raises UserError E0001 for what is missing, E11xx for a bundle that cannot be read.
    """
    partitioned = read_stage(stage_files(stages)[-1])
    return Built(load_backends(machines), file, stages, integer_stage(stages), partitioned, read_bundle(bundle), str(bundle))


def integer_stage(folder: Path) -> ir.Model:
    """The stage before partitioning, but with the recurrent layers whole that partitioning left to the host. Raises UserError E0001."""
    return join_as(read_stage(stage_before(folder, "partition")), read_stage(stage_files(folder)[-1]))


def stage_files(folder: Path) -> list[Path]:
    """The stages in their order. Raises UserError E0001 where there is none."""
    found = sorted(path for path in folder.glob("[0-9][0-9]-*.onnx"))
    if not found:
        raise fail("E0001", "there are no stages of a graph here", hint="build the model first", place=str(folder))
    return found


def stage_before(folder: Path, *names: str) -> Path:
    """The last stage before a pass of these names first ran; the last of all where none did."""
    files = stage_files(folder)
    numbers = [number for number, path in enumerate(files) if path.stem.partition("-")[2] in names]
    return files[max(numbers[0] - 1, 0)] if numbers else files[-1]
