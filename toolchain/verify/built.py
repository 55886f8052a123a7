"""The files of a build, read back for verification and reports, and a region's program beside the operations that it should compute."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from toolchain.abi.dram_map import DramMap
from toolchain.analysis.state import State
from toolchain.codegen.binary import read_origins
from toolchain.graph.integers.functions import integer_domain
from toolchain.graph.store import read_stage
from toolchain.isa.program import NONE, Ints, Origins, Program
from toolchain.passes.join_recurrent import join_as
from toolchain.passes.truth import Given, open_given
from toolchain.runtime.bundle import read_bundle
from toolchain.runtime.contents import Bundle, RegionProgram
from toolchain.runtime.open_region import region_image
from toolchain.schedule.backend import Backend, backend_of, load_backends
from toolchain.schedule.batch_cut import divided, load_parts
from toolchain.schedule.form.files import read_schedule
from toolchain.schedule.form.plan import Schedule
from toolchain.schedule.form.realise import ordered_region, scheduled_region
from toolchain.schedule.program import CompiledRegion, serial_order
from toolchain.schedule.read_region import read_region
from toolchain.schedule.regions.region import Region
from toolchain.spec.arrays import Array
from toolchain.spec.errors import Source, UserError, fail
from toolchain.spec.files import read_limited
from toolchain.spec.model import Machine
from toolchain.spec.model.quantisation import Numerics, Range
from toolchain.timing.simulate import Timeline, time_state


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


def read_built(machines: Sequence[Machine], stages: Path, bundle: Path, file: Path, subgraphs: Path | None = None) -> Built:
    """machines: the first choice first. stages: the folder of the graph's stages, NN-PASS.onnx. file: the model as the user gave it. subgraphs: the
    file of those of its regions.

    Raises UserError E0001 for missing files, E11xx for a bundle that cannot be read.
    """
    partitioned = divided(read_stage(stage_files(stages)[-1]), load_parts(subgraphs))
    return Built(load_backends(machines), file, stages, integer_stage(stages), partitioned, read_bundle(bundle), str(bundle))


def integer_stage(folder: Path) -> ir.Model:
    """The stage before partitioning, but with the recurrent layers whole that partitioning left to the host. Raises UserError E0001."""
    integer, partitioned = integer_files(folder)
    return join_as(read_stage(integer), read_stage(partitioned))


def integer_files(folder: Path) -> tuple[Path, Path]:
    """The two files that decide it, which name their weights by content. Raises UserError E0001."""
    return stage_before(folder, "partition"), stage_files(folder)[-1]


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


Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class ProgramUnderTest:
    """listing: the purpose of each instruction, for a reader. origins: the same by numbers. constants: bytes by segment.

    order: of the instructions, one in which they could run one by one, an operation of the schedule being done with the last one that is its own.
    """

    region: Region
    program: Program
    listing: tuple[str, ...]
    origins: Origins
    map: DramMap
    constants: Mapping[str, bytes]
    order: Ints

    @cached_property
    def rank(self) -> Ints:
        """int64 [n], the place of each instruction in that order; those that it leaves out stand behind."""
        found = np.full(len(self.program), len(self.program))
        found[self.order] = np.arange(len(self.order))
        return found

    @cached_property
    def timeline(self) -> Timeline:
        """Its times, made once. Raises UserError E0501 for a deadlock."""
        return time_state(self.program, self.state())

    @property
    def copies(self) -> "tuple[ProgramUnderTest, ...]":
        """By copy of the program: its room in memory, and the origins of its own instructions alone. Copies may wait for each other, so the order
        is that of all."""
        copy = self.program.stream // self.map.streams
        found = (replace(self, map=room, origins=self.origins.only(copy == k)) for k, room in enumerate(self.rooms))
        return tuple(found) if len(self.rooms) > 1 else (self,)

    @cached_property
    def rooms(self) -> tuple[DramMap, ...]:
        """The map as each copy of the program sees it."""
        return tuple(map(self.map.room, range(self.map.rooms))) if self.map.rooms > 1 else (self.map,)

    @property
    def owner(self) -> Ints:
        """int64 [n], the index of each instruction's operation, -1 for none."""
        return self.origins.operation

    def state(self, *inputs: Mapping[str, Array]) -> State:
        """A new state with everything in DRAM that the program reads. inputs: of each of its copies; those behind the last get none."""
        state = self.map.state(self.program.machine, self.constants)
        for room, own in zip(self.rooms, inputs, strict=False):
            room.write(self.program.machine, state, own)
        return state

    def restarts(self, state: State) -> Callable[[], State]:
        """Makes further states like `state`, which did not run yet; the inputs that it holds are not packed again."""
        held = [(room, name, room.buffer(state, name).copy()) for room in self.rooms for name in self.region.inputs]

        def start() -> State:
            fresh = self.map.state(self.program.machine, self.constants)
            for room, name, data in held:
                room.buffer(fresh, name)[:] = data
            return fresh

        return start

    def stored(self, state: State, tensor: str) -> Bytes:
        """The buffer of a tensor as it stands in its memory, bytes beside the tensor included."""
        return self.map.buffer(state, tensor)

    def result(self, state: State, tensor: str) -> Array:
        """A tensor [images, channels, height, width] out of a state."""
        return self.map.read(self.program.machine, state, tensor)


MOST_LISTED = 1 << 28
"""Bytes of a listing."""


def program_of_region(compiled: CompiledRegion) -> ProgramUnderTest:
    """As it was just compiled."""
    return ProgramUnderTest(compiled.region, compiled.program, compiled.listing, compiled.origins, compiled.map, compiled.constants, compiled.order)


def bundled_program(bundle: Bundle, program: RegionProgram, region: Region, machine: Machine, place: str = "") -> ProgramUnderTest:
    """As the bundle has it. Raises UserError E14xx for a schedule that is not the region's, E1110 for origins that are not the program's, E032x and
    E03xx for a damaged program."""
    image = region_image(bundle, program, machine, place)
    schedule = bundled_schedule(bundle, program, place)
    region = scheduled_region(region, schedule)
    origins = read_origins(bundle.members[program.origins], len(image.program), len(region.operations), program.name, place)
    ordered_region(region, schedule)
    order = serial_order(image.program, origins, schedule)
    labels = _listed(place, program.name, len(image.program)) or _labels(region, origins)
    return ProgramUnderTest(region, image.program, labels, origins, image.map, image.constants, order)


def _listed(place: str, name: str, instructions: int) -> tuple[str, ...]:
    """Labels out of the listing that a build leaves beside its bundle; none where there is no such file for so many instructions."""
    try:
        lines = read_limited(Path(place).with_name(f"{name}.txt"), MOST_LISTED, "the listing").decode("utf-8", "replace").splitlines()
    except (UserError, ValueError):
        return ()
    return tuple("".join(line.split(maxsplit=2)[2:]) for line in lines) if len(lines) == instructions else ()


def _labels(region: Region, origins: Origins) -> tuple[str, ...]:
    """Operation and step of each instruction; empty for one that only passes tokens."""
    names = [bound.operation.name for bound in region.operations]
    steps = [" ".join(step).strip() for step in origins.steps]
    pairs = zip(origins.operation.tolist(), origins.step.tolist(), strict=True)
    return tuple(f"{names[operation]} {steps[step]}" if NONE not in (operation, step) else "" for operation, step in pairs)


def bundled_schedule(bundle: Bundle, program: RegionProgram, place: str = "") -> Schedule:
    """The schedule that a region's program follows. Raises UserError of one that cannot be read."""
    return read_schedule(Source(f"{place}/{program.schedule}", bundle.members[program.schedule].decode("utf-8", "replace")))


def program_of_build(built: Built, call: ir.Node) -> ProgramUnderTest:
    """The program of a region call. Raises UserError as `bundled_program` does, and E10xx for a region that its kernels cannot compute."""
    backend = built.backend(call)
    region = read_region(backend.machine, backend.kernels, built.partitioned, call)
    program = next(item for item in built.bundle.manifest.regions if item.name == region.name)
    return bundled_program(built.bundle, program, region, backend.machine, built.place)


def stored_ranges(machines: Iterable[Machine]) -> dict[str, Range]:
    """The stored range of each machine's activations, by the domain of its integer functions."""
    found = [(machine.name, (machine.quantisation or Numerics()).activation) for machine in machines]
    return {integer_domain(number, name): stored for number, (name, stored) in enumerate(found)}
