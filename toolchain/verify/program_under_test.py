"""The program under test: a region's program from a bundle, or as it was just compiled, beside the operations that it should compute."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from toolchain.abi.dram_map import DramMap
from toolchain.abi.origins import NONE, Origins
from toolchain.analysis.state import State
from toolchain.codegen.binary import read_origins
from toolchain.isa.program import Ints, Program
from toolchain.runtime.contents import Bundle, RegionProgram
from toolchain.runtime.open_region import region_image
from toolchain.schedule.compiled_region import CompiledRegion
from toolchain.schedule.form.order import ordered_region
from toolchain.schedule.form.read import read_schedule
from toolchain.schedule.form.schedule import Schedule
from toolchain.schedule.read_region import read_region
from toolchain.schedule.regions.region import Region
from toolchain.schedule.serial_order import serial_order
from toolchain.spec.errors import Source, UserError
from toolchain.spec.files import read_limited
from toolchain.spec.model import Machine
from toolchain.verify.built import Built

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class ProgramUnderTest:
    """listing: of each instruction, what it is for, for a reader. origins: the same by numbers. constants: bytes by segment.

    order: of the instructions, one in which they could run one by one, an operation of the schedule being done with the last one that is its own;
    of a copy of the program, only its own.
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

    @property
    def rooms(self) -> "tuple[ProgramUnderTest, ...]":
        """By copy of the program, what is its own: its instructions, and its room in memory."""
        held = self.map
        copy = self.program.stream[self.order] // held.streams
        return tuple(replace(self, map=held.room(room), order=self.order[copy == room]) for room in range(held.rooms)) if held.rooms > 1 else (self,)

    @property
    def owner(self) -> Ints:
        """int64 [n], the index of each instruction's operation, -1 for none."""
        return self.origins.operation

    def state(self, *inputs: Mapping[str, NDArray[Any]]) -> State:
        """A new state with everything in DRAM that the program reads. inputs: of each of its copies; those behind the last get none."""
        state = self.map.state(self.program.machine, self.constants)
        for room, own in zip(self.rooms, inputs, strict=False):
            room.map.write(self.program.machine, state, own)
        return state

    def restarts(self, state: State) -> Callable[[], State]:
        """Makes further states like `state`, which did not run yet; the inputs that it holds are not packed again."""
        held = [(room, name, room.stored(state, name).copy()) for room in self.rooms for name in self.region.inputs]

        def start() -> State:
            fresh = self.map.state(self.program.machine, self.constants)
            for room, name, data in held:
                room.stored(fresh, name)[:] = data
            return fresh

        return start

    def stored(self, state: State, tensor: str) -> Bytes:
        """The buffer of a tensor as it stands in its memory, what lies beside the tensor included."""
        return self.map.buffer(state, tensor)

    def result(self, state: State, tensor: str) -> NDArray[Any]:
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
    origins = read_origins(bundle.members[program.origins], len(image.program), len(region.operations), program.name, place)
    schedule = bundled_schedule(bundle, program, place)
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
