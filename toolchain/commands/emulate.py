"""`tilewright check` and `tilewright emulate`"""

import argparse
import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from toolchain.analysis.checks import Checked, check_program, prepare_program
from toolchain.analysis.hazards.text import soundness
from toolchain.analysis.state import State, new_state
from toolchain.commands.inputs import MemoryRegion, load_memories, output_regions, set_registers
from toolchain.commands.machine import machine_of
from toolchain.commands.stopwatch import Stopwatch, sign
from toolchain.emulator.engines import engine_named
from toolchain.isa.footprint.footprints import Footprints
from toolchain.isa.program import Program
from toolchain.isa.program_file import load_program
from toolchain.spec.errors import Diagnostic, UserError
from toolchain.spec.files import require_writable, write_atomic
from toolchain.timing.simulate import Timeline, time_program


@dataclass(frozen=True)
class Job:
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
    """Checks, runs, times, and writes what was asked for."""
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


def _load(arguments: argparse.Namespace) -> Job:
    with sign("loading the machine"):
        machine = machine_of(arguments)
    watch = Stopwatch()
    with watch.stage("decoding"):
        program = load_program(machine, Path(arguments.program))
    state = new_state(machine)
    loaded = load_memories(state, arguments.memory)
    set_registers(state, arguments.register)
    return Job(program, state, tuple(loaded), watch)


def _checked(place: str, job: Job, hazards: bool) -> Checked:
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


def _write(job: Job, region: MemoryRegion, footprints: Footprints) -> None:
    data = job.state.memories[region.memory][region.instance]
    length = _used(job, region, footprints) - region.offset if region.length is None else region.length
    write_atomic(region.path, data[region.offset : region.offset + max(length, 0)].tobytes())


def _used(job: Job, region: MemoryRegion, footprints: Footprints) -> int:
    """The end of what was loaded into a memory instance or touched there by the program, in bytes."""
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
    from toolchain.report.timeline_page import write_timeline_page
    from toolchain.timing.trace import write_trace

    if path.suffix == ".html":
        write_timeline_page(path, f"{name} on {timeline.program.machine.label}", timeline)
    else:
        write_trace(timeline, path)


def _report(arguments: argparse.Namespace, job: Job, timeline: Timeline) -> None:
    from toolchain.timing.summary import summary_data, summary_text

    if arguments.trace:
        with job.watch.stage("trace"):
            _draw(Path(arguments.trace), Path(arguments.program).name, timeline)
    data = summary_data(timeline) | {"seconds": {name: round(value, 6) for name, value in job.watch.seconds.items()}}
    if arguments.json:
        write_atomic(Path(arguments.json), (json.dumps(data, indent=2) + "\n").encode())
    print(summary_text(timeline), end="")
