"""`tilewright check`, `emulate` and `device`: programs on the emulator."""

import argparse
import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from toolchain.analysis.checks import Checked, check_program, prepare_program
from toolchain.analysis.races import soundness
from toolchain.analysis.state import State, new_state
from toolchain.commands.machine import Stopwatch, machine_of, pairs, sign
from toolchain.emulator import engine_named
from toolchain.isa.footprint.footprints import Footprints
from toolchain.isa.program import Program
from toolchain.isa.program_file import load_program
from toolchain.spec.errors import Diagnostic, UserError, fail, nearest
from toolchain.spec.files import require_writable, write_atomic
from toolchain.spec.model import Machine, Memory
from toolchain.timing.simulate import Timeline, time_program

_NAME = re.compile(r"(?P<name>[A-Za-z_]\w*)(\[(?P<index>\d+)\])?\Z")


@dataclass(frozen=True)
class MemoryRegion:
    """A piece of one memory instance that stands in a file; length None is `as much as there is`."""

    memory: str
    instance: int
    path: Path
    offset: int = 0
    length: int | None = None


def load_memories(state: State, texts: Sequence[str]) -> list[MemoryRegion]:
    """Loads `NAME=FILE[@OFFSET]`. Raises UserError E0003 for an unknown memory, E0004 when a file does not fit."""
    regions = [_region(state.machine, text, "--memory NAME=FILE[@OFFSET]") for text in texts]
    return [_fill(state, region) for region in regions]


def _fill(state: State, region: MemoryRegion) -> MemoryRegion:
    target = state.memories[region.memory][region.instance]
    room = memoryview(target[region.offset :])
    try:
        with region.path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > len(room):
                raise _too_large(region, f"{size} bytes", len(target))
            count = file.readinto(room) if len(room) else 0
            if file.read(1):
                raise _too_large(region, f"more than {len(room)} bytes", len(target))
    except OSError as error:
        raise fail("E0001", f"cannot read the file: {error.strerror}", place=str(region.path)) from None
    return MemoryRegion(region.memory, region.instance, region.path, region.offset, count)


def _too_large(region: MemoryRegion, size: str, room: int) -> UserError:
    return fail("E0004", f"{size} at {region.offset:#x} do not fit into '{region.memory}' of {room} bytes", place=str(region.path))


def set_registers(state: State, texts: Sequence[str]) -> None:
    """Sets host registers: `NAME=VALUE` by an element's own name, or `REGISTER[I]=VALUE`."""
    for name, value in pairs(list(texts), "--register NAME=VALUE").items():
        register, index = _register(state.machine, name)
        try:
            number = int(value, 0)
        except ValueError:
            raise fail("E0002", f"'{value}' is not a number, for --register {name}") from None
        if not -(1 << 63) <= number < 1 << 63:
            raise fail("E0002", f"{value} does not fit into register {name} of 64 bits")
        state.host[register][:, index] = number


def _register(machine: Machine, name: str) -> tuple[str, int]:
    known: dict[str, tuple[str, int]] = {}
    for memory in machine.memories:
        if memory.host:
            known |= {label: (memory.name, i) for i, label in enumerate(memory.names)}
            known |= {f"{memory.name}[{i}]": (memory.name, i) for i in range(memory.depths[0])}
    if name not in known:
        raise fail("E0003", f"{machine.name} has no host register '{name}'", hint=nearest(name, known) or f"known: {', '.join(known) or 'none'}")
    return known[name]


def output_regions(machine: Machine, texts: Sequence[str]) -> list[MemoryRegion]:
    """Reads `NAME=FILE[@OFFSET:LENGTH]`."""
    return [_region(machine, text, "--out NAME=FILE[@OFFSET:LENGTH]") for text in texts]


def _region(machine: Machine, text: str, form: str) -> MemoryRegion:
    ((name, rest),) = pairs([text], form).items()
    memory, instance = _memory(machine, name)
    path, at, place = rest.rpartition("@")
    if not at or "/" in place:  # the @ of a folder's name
        return MemoryRegion(memory.name, instance, Path(rest))
    start, colon, count = place.partition(":")
    try:
        offset, length = int(start, 0), int(count, 0) if colon else None
    except ValueError:
        raise fail("E0002", f"'{text}' does not have the form {form}") from None
    if offset < 0 or (length or 0) < 0 or offset + (length or 0) > memory.bytes:
        raise fail("E0004", f"'{place}' is outside '{memory.name}' of {memory.bytes} bytes")
    return MemoryRegion(memory.name, instance, Path(path), offset, length)


def _memory(machine: Machine, text: str) -> tuple[Memory, int]:
    found = _NAME.match(text)
    known = [m.name for m in machine.memories if m.kind != "register"]
    name = found["name"] if found else text
    if not found or name not in known:
        raise fail("E0003", f"{machine.name} has no memory '{name}'", hint=nearest(name, known) or f"known: {', '.join(known)}")
    memory, instance = machine.memory[name], int(found["index"] or 0)
    if instance >= machine.instances(memory.scope):
        raise fail("E0003", f"'{name}' has {machine.instances(memory.scope)} instances, there is no {instance}")
    return memory, instance


@dataclass(frozen=True)
class EmulatorJob:
    """A program with its memories loaded, ready to check and run."""

    program: Program
    state: State
    loaded: tuple[MemoryRegion, ...]
    watch: Stopwatch


def check(arguments: argparse.Namespace) -> None:
    """Says that the program is sound, or raises all that is wrong with it."""
    job = _load(arguments)
    checked = _checked(arguments.program, job, True)
    found = soundness(checked.tolerated)
    print(f"{arguments.program}: {len(job.program)} instructions, {len(checked.footprints.runs)} footprints: {found}")


def emulate(arguments: argparse.Namespace) -> None:
    """Checks, runs and times a program, and writes the files that were asked for."""
    job = _load(arguments)
    outputs = output_regions(job.program.machine, arguments.out)
    for path in (*(region.path for region in outputs), *(Path(text) for text in (arguments.trace, arguments.json) if text)):
        require_writable(path)
    checked = _checked(arguments.program, job, not arguments.no_check)
    with job.watch.stage("execution"):
        engine_named(arguments.engine)(job.program, job.state, checked.order)
    with job.watch.stage("timing"):
        timeline = time_program(job.program, checked.footprints, checked.provenance, checked.tokens)
    for region in outputs:
        _write(job, region, checked.footprints)
    _report(arguments, job, timeline)


def _load(arguments: argparse.Namespace) -> EmulatorJob:
    with sign("loading the machine"):
        machine = machine_of(arguments)
    watch = Stopwatch()
    with watch.stage("decoding"):
        program = load_program(machine, Path(arguments.program))
    state = new_state(machine)
    loaded = load_memories(state, arguments.memory)
    set_registers(state, arguments.register)
    return EmulatorJob(program, state, tuple(loaded), watch)


def _checked(place: str, job: EmulatorJob, hazards: bool) -> Checked:
    """Prepares a program; every warning and error names its file."""
    try:
        with job.watch.stage("checks"):
            filled = [region.memory for region in job.loaded]
            checked = check_program(job.program, job.state, filled) if hazards else prepare_program(job.program, job.state)
    except UserError as error:
        raise UserError(*(_placed(diagnostic, place) for diagnostic in error.diagnostics)) from None
    for diagnostic in checked.warnings:
        print(_placed(diagnostic, place).render(), file=sys.stderr)
    return checked


def _placed(diagnostic: Diagnostic, place: str) -> Diagnostic:
    return diagnostic if diagnostic.span or diagnostic.place else replace(diagnostic, place=place)


def _write(job: EmulatorJob, region: MemoryRegion, footprints: Footprints) -> None:
    data = job.state.memories[region.memory][region.instance]
    length = _used(job, region, footprints) - region.offset if region.length is None else region.length
    write_atomic(region.path, data[region.offset : region.offset + max(length, 0)].tobytes())


def _used(job: EmulatorJob, region: MemoryRegion, footprints: Footprints) -> int:
    """The end of the bytes that were loaded into a memory instance or touched there by the program."""
    machine, runs = job.program.machine, footprints.runs
    memory = machine.memory[region.memory]
    first = region.instance * (memory.bytes // memory.granule)
    if memory.name in footprints.alike:
        first = 0
    last = first + memory.bytes // memory.granule
    mine = (runs.memory == machine.memories.index(memory)) & (runs.start >= first) & (runs.start < last)
    touched = (int(np.max(runs.stop[mine])) - first) * memory.granule if mine.any() else 0
    loaded = [r.offset + (r.length or 0) for r in job.loaded if (r.memory, r.instance) == (region.memory, region.instance)]
    return max(touched, *loaded, 0)


def _draw(path: Path, name: str, timeline: Timeline) -> None:
    """A page for a browser or a trace, by the ending of the path."""
    from toolchain.report.timeline_data import write_timeline_page
    from toolchain.timing.trace import write_trace

    if path.suffix == ".html":
        write_timeline_page(path, f"{name} on {timeline.program.machine.label}", timeline)
    else:
        write_trace(timeline, path)


def _report(arguments: argparse.Namespace, job: EmulatorJob, timeline: Timeline) -> None:
    from toolchain.timing.usage import summary_data, summary_text

    if arguments.trace:
        with job.watch.stage("trace"):
            _draw(Path(arguments.trace), Path(arguments.program).name, timeline)
    data = summary_data(timeline) | {"seconds": {name: round(value, 6) for name, value in job.watch.seconds.items()}}
    if arguments.json:
        write_atomic(Path(arguments.json), (json.dumps(data, indent=2) + "\n").encode())
    print(summary_text(timeline), end="")


def serve_lines(arguments: argparse.Namespace) -> None:
    """Answers each line of standard input, until it ends."""
    from toolchain.runtime.emulator_device import serve  # with all that a device needs, which one run does not

    for answer in serve(machine_of(arguments), (line.rstrip("\n") for line in sys.stdin)):
        print(answer, flush=True)
