"""Hazards in words: both instructions, the memory and the range, and which edge is missing."""

from collections.abc import Mapping

import numpy as np

from toolchain.analysis.hazards.races import RAW, UNWRITTEN, WAR, Hazards
from toolchain.isa.footprint.footprints import Footprints
from toolchain.isa.footprint.text import range_text
from toolchain.isa.program import Program
from toolchain.spec.errors import Diagnostic

TOLERATED = {
    "E0601": ("race", "races"),
    "E0602": ("read of what nothing has written", "reads of what nothing has written"),
    "E0612": ("instruction that meets its own results too soon", "instructions that meet their own results too soon"),
}


def soundness(tolerated: Mapping[str, int]) -> str:
    """Findings of checks that only warn. tolerated: by code, hazards that the machine's file calls warnings."""
    named = [f"{count} {TOLERATED[code][count > 1]}" for code, count in sorted(tolerated.items()) if count]
    race = [] if tolerated.get("E0601") else ["no race"]
    held = [f"{' and '.join(named)} that the machine's file calls {'warnings' if sum(tolerated.values()) > 1 else 'a warning'}"] if named else []
    return ", ".join(["no deadlock", *race, "every address in range", *held])


def hazard_code(kind: int) -> str:
    """The code of a row of Hazards."""
    return "E0602" if kind == UNWRITTEN else "E0601"


def hazard_diagnostic(prints: Footprints, found: Hazards, row: int) -> Diagnostic:
    """E0601 for a race, E0602 for a read of what nothing wrote; as severe as the memory says."""
    program, number = prints.program, int(found.memory[row])
    memory = program.machine.memories[number]
    where = range_text(program.machine, number, int(found.start[row]), int(found.stop[row]), memory.name in prints.alike)
    first, second, kind = int(found.first[row]), int(found.second[row]), int(found.kind[row])
    later = program.label(second)
    if kind == UNWRITTEN:
        return Diagnostic("E0602", f"{later} reads {where}, which nothing has written", severity=memory.hazard)
    earlier = program.label(first)
    did, does, name = {
        RAW: ("writes", "reads", "read after write"),
        WAR: ("reads", "writes", "write after read"),
    }.get(kind, ("writes", "writes", "write after write"))
    message = f"race on {where}: {earlier} {did} it, {later} {does} it, and nothing orders them ({name})"
    return Diagnostic("E0601", message, hint=_missing(program, first, second), severity=memory.hazard)


def _missing(program: Program, first: int, second: int) -> str:
    a, b = _queue(program, first), _queue(program, second)
    if a == b:
        return f"{a} overlaps its instructions: it needs a token to itself between them"
    return f"a token from {a} to {b} is missing, posted by #{first} or later and taken by #{second} or earlier"


def _queue(program: Program, index: int) -> str:
    unit = program.machine.units[int(program.unit[index])].name
    return f"{unit} of stream {int(program.stream[index])}" if program.machine.streams > 1 else unit


def relevant(prints: Footprints, found: Hazards, preset: frozenset[str]) -> Hazards:
    """Without the unwritten reads of DRAM and of memories that the host has filled, nor those that may follow from a bad address."""
    memories = prints.program.machine.memories
    filled = [i for i, m in enumerate(memories) if m.kind == "dram" or (m.name in preset and not m.transient) or len(prints.faults)]
    kept = ~((found.kind == UNWRITTEN) & np.isin(found.memory, filled))
    return found.take(kept)
