"""Binary code: a machine's own instructions in its object container, and the step of an operation that each instruction belongs to."""

import json
from dataclasses import dataclass

import numpy as np

from toolchain.codegen import RegionCode
from toolchain.graph.regions import GraphRegion
from toolchain.isa.assembly import disassemble
from toolchain.isa.program import NONE, Origins, StepName, runs_of
from toolchain.isa.program_file import write_container
from toolchain.schedule.backend import Backend
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.form.files import write_schedule
from toolchain.schedule.form.plan import Schedule
from toolchain.schedule.program import CompiledRegion
from toolchain.schedule.regions.region import Region
from toolchain.spec.errors import fail
from toolchain.spec.typed_json import MistypedError, from_json, to_json


@dataclass(frozen=True)
class _Columns:
    """For each run of neighbouring instructions: how many they are, operation, index in `steps`, and instance, as in Origins."""

    steps: tuple[StepName, ...]
    count: tuple[int, ...]
    operation: tuple[int, ...]
    step: tuple[int, ...]
    instance: tuple[int, ...]


def origins_bytes(origins: Origins) -> bytes:
    """The file that `read_origins` reads."""
    runs, number = runs_of(origins), {name: index for index, name in enumerate(origins.steps)}
    columns = _Columns(
        origins.steps,
        tuple(run.length for run in runs),
        tuple(run.operation for run in runs),
        tuple(NONE if run.step is None else number[run.step] for run in runs),
        tuple(run.instance for run in runs),
    )
    return (json.dumps(to_json(columns)) + "\n").encode()


def read_origins(data: bytes, instructions: int, operations: int, name: str, place: str = "") -> Origins:
    """name: of the region. Raises UserError E1110 unless the data describe a program of so many instructions and operations."""
    try:
        found = from_json(_Columns, json.loads(data), f"the origins of '{name[:80]}'")
    except (ValueError, RecursionError) as error:
        text = str(error) if isinstance(error, MistypedError) else f"the origins of '{name[:80]}' are not JSON"
        raise fail("E1110", text, hint="build the model again", place=place) from None
    limits = {"operation": (found.operation, operations), "step": (found.step, len(found.steps)), "instance": (found.instance, 1 << 62)}
    for column, (values, limit) in limits.items():
        if len(values) != len(found.count) or not all(NONE <= value < limit for value in values):
            raise fail("E1110", f"the origins of '{name[:80]}' have a column '{column}' that cannot be", hint="build the model again", place=place)
    if sum(found.count) != instructions or min(found.count, default=1) < 1:
        text = f"the origins of '{name[:80]}' are those of {sum(found.count)} instructions, its program has {instructions}"
        raise fail("E1110", text, hint="build the model again", place=place)
    return Origins(found.steps, *(np.repeat(np.array(column, np.int64), found.count) for column in (found.operation, found.step, found.instance)))


@dataclass(frozen=True)
class BinaryGenerator:
    """The generator of machines that have an encoding and kernels."""

    def generate(self, backend: Backend, region: Region | GraphRegion, schedule: Schedule | None = None) -> RegionCode:
        """Raises UserError as `compile_region` does."""
        assert isinstance(region, Region)
        return binary_code(compile_region(backend.machine, backend.kernels, region, schedule=schedule))


def binary_code(compiled: CompiledRegion) -> RegionCode:
    """A compiled region as bytes."""
    stored, program = compiled.map, compiled.program
    return RegionCode(
        target=program.machine.name,
        suffix="two",
        blob=write_container(program),
        source=disassemble(program),
        listing=listing_text(compiled),
        origins=origins_bytes(compiled.origins),
        schedule=write_schedule(compiled.schedule),
        map=stored,
        constants=compiled.constants,
        images=stored.rooms * stored.tensors[stored.outputs[0]].shape.batch,
        cycles=compiled.cycles,
    )


def listing_text(compiled: CompiledRegion) -> str:
    """A line for each instruction: its number, its name and its purpose."""
    program = compiled.program
    kinds: list[int] = program.kind.tolist()
    names = [program.machine.instructions[kind].name for kind in kinds]
    return "".join(f"{number:6} {name:10} {label}".rstrip() + "\n" for number, (name, label) in enumerate(zip(names, compiled.listing, strict=True)))
