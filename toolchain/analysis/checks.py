"""Everything that is checked before a program runs: addresses, control memories, stale registers, races, leftover tokens."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from toolchain.analysis.clocks import Clocks, happens_before, sync_faults
from toolchain.analysis.footprints import footprints
from toolchain.analysis.in_place import control_conflicts, repeat_diagnostics, repeats, self_conflicts
from toolchain.analysis.interlock import program_tokens
from toolchain.analysis.order import issue_order, leftovers
from toolchain.analysis.races import (
    UNWRITTEN,
    Executed,
    Hazards,
    find_hazards,
    gather,
    hazard_code,
    hazard_diagnostic,
    hazards,
    lost_reads,
    relevant,
)
from toolchain.analysis.state import State, new_state
from toolchain.isa.checks import MOST, latched_violations, limited, portability
from toolchain.isa.footprint.footprints import Footprints
from toolchain.isa.footprint.provenance import Provenance, register_instance, register_runs
from toolchain.isa.footprint.text import comment, controlled, fault_diagnostic
from toolchain.isa.program import Ints, Program, queue_table
from toolchain.isa.sync_tokens import SyncTokens
from toolchain.spec.errors import Diagnostic
from toolchain.spec.model import Memory


def stale_reads(provenance: Provenance, written: Mapping[str, NDArray[np.bool_]]) -> list[Diagnostic]:
    """E0606 for a register that no instruction wrote, of the program or before it (`written`, as in State), E0607 for a value that was used up,
    E0610 for no such index."""
    registers = [m for m in provenance.program.machine.memories if m.kind == "register"]
    found = [d for memory in registers for d in _strays(provenance, memory)]
    return found + [d for memory in registers if memory.latches for d in _register(provenance, memory.name, written[memory.name])]


def _strays(provenance: Provenance, memory: Memory) -> Iterator[Diagnostic]:
    for instruction, index in zip(*provenance.strays(memory.name), strict=True):
        yield Diagnostic(
            "E0610", f"{provenance.program.label(int(instruction))} uses {memory.name}[{int(index)}], which has {memory.depths[0]} entries"
        )


def _register(provenance: Provenance, name: str, written: NDArray[np.bool_]) -> Iterator[Diagnostic]:
    program, memory = provenance.program, provenance.program.machine.memory[name]
    reads = provenance.reads(name)

    def shown(row: int) -> str:
        return f"{name}[{int(reads.index[row])}]" if memory.depths[0] > 1 else name

    bare = (reads.source == -1) & ~written[register_instance(program, name, reads.instruction), reads.index]
    for row in np.flatnonzero(bare).tolist():
        label = program.label(int(reads.instruction[row]))
        yield Diagnostic("E0606", f"{label} uses {shown(row)}, which no instruction has set", hint=f"put {' or '.join(memory.latches)} before it")
    if memory.consumed:
        slot = register_instance(program, name, reads.instruction) * memory.depths[0] + reads.index
        rank = np.lexsort((provenance.position[reads.instruction], slot))
        again = (np.diff(slot[rank], prepend=-1) == 0) & (np.diff(reads.source[rank], prepend=-3) == 0) & (reads.source[rank] >= 0)
        for place in np.flatnonzero(again).tolist():
            row, before = int(rank[place]), int(rank[place - 1])
            first, second = (program.label(int(reads.instruction[r])) for r in (before, row))
            yield Diagnostic(
                "E0607",
                f"{second} uses {shown(row)} as {program.label(int(reads.source[row]))} set it, but {first} has used that up",
                hint=f"put another {' or '.join(memory.latches)} between them",
            )


@dataclass(frozen=True)
class Checked:
    """A program that may run. order: as it executes without time. warnings: findings that do not forbid the run.

    tolerated: how many hazards of each code there are that the machine's file calls warnings; `warnings` shows the first of them.
    """

    order: Ints
    footprints: Footprints
    provenance: Provenance
    tokens: SyncTokens
    warnings: tuple[Diagnostic, ...]
    tolerated: Mapping[str, int]


def check_program(program: Program, state: State, preset: Iterable[str] = ()) -> Checked:
    """Checks a program against the memory's contents before it runs; `preset` names on-chip memories that the host fills.

    Raises one UserError with all that is wrong: E05xx for a deadlock, else E0404 for constraints on latched registers and
    everything from E0601 to E0612, the first 20.
    """
    tokens = program_tokens(program, state)
    order = issue_order(program, None, tokens)
    provenance = Provenance(program, state, order)
    prints = footprints(program, state, order, provenance)
    clocks = happens_before(program, order, tokens)
    found = _hazards(prints, _timeline(program, order, provenance, clocks), provenance, frozenset(preset))
    diagnostics = [
        *sync_faults(program, tokens, order, clocks),
        *latched_violations(provenance),
        *_faults(provenance, prints),
        *control_conflicts(prints),
        *stale_reads(provenance, state.written),
        *self_conflicts(provenance, prints),
    ]
    again = repeats(provenance)
    diagnostics += repeat_diagnostics(program, again.severe(program, True))
    severe = np.array([m.hazard == "error" for m in program.machine.memories])[found.memory] if len(found) else np.zeros(0, np.bool_)
    diagnostics += _first(prints, found, _pairs(found, severe))
    if diagnostics:
        raise limited(diagnostics)
    mild, slight = _pairs(found, ~severe), again.severe(program, False)
    hazardous = (*_shortened(_first(prints, found, mild), len(mild)), *_shortened(list(repeat_diagnostics(program, slight)), len(slight)))
    tolerated = Counter([*map(hazard_code, found.kind[mild].tolist()), *["E0612"] * len(slight)])
    return Checked(order, prints, provenance, tokens, (*hazardous, *leftovers(program, tokens), *portability(program)), tolerated)


def prepare_program(program: Program, state: State) -> Checked:
    """Prepares a run and its timing, without looking for hazards. Raises UserError E0501 for a deadlock: then there is no order."""
    tokens = program_tokens(program, state)
    order = issue_order(program, None, tokens)
    provenance = Provenance(program, state, order)
    return Checked(order, footprints(program, state, order, provenance), provenance, tokens, (), {})


def _timeline(program: Program, order: Ints, provenance: Provenance, clocks: Clocks) -> Executed:
    place = queue_table(program.queue, program.queues).position
    return Executed(order, provenance.position, program.queue, place, clocks)


def _hazards(prints: Footprints, timeline: Executed, provenance: Provenance, preset: frozenset[str]) -> Hazards:
    """Races of memories and of latched registers, which units share like memories; `stale_reads` finds reads of an unset register.

    Reads of values that are lost are none.
    """
    held = find_hazards(replace(prints, runs=register_runs(provenance)), timeline)
    races = held.take(held.kind != UNWRITTEN)
    left, lost = prints, np.ones(1, np.bool_)
    found = relevant(prints, hazards(prints, timeline), preset)
    while len(found) and lost.any():
        lost = lost_reads(left, provenance, timeline, found)
        left = replace(left, runs=left.runs.take(~lost))
        found = relevant(prints, hazards(left, timeline), preset) if lost.any() else found
    return gather([found, races], timeline.position) if len(races) else found


def _pairs(found: Hazards, chosen: NDArray[np.bool_]) -> Ints:
    """int64: of the chosen hazards, the first of each pair of instructions and memory."""
    rows = np.flatnonzero(chosen)
    pairs = np.stack([found.first[rows], found.second[rows], found.memory[rows]], 1)
    return rows[np.sort(np.unique(pairs, axis=0, return_index=True)[1])]


def _first(prints: Footprints, found: Hazards, rows: Ints) -> list[Diagnostic]:
    """As many as are ever shown."""
    return [hazard_diagnostic(prints, found, row) for row in rows[: MOST + 1].tolist()]


def _shortened(found: list[Diagnostic], total: int) -> list[Diagnostic]:
    if total <= MOST:
        return found
    return [*found[: MOST - 1], Diagnostic(found[0].code, f"{total - MOST + 1} more warnings of this kind", severity="warning")]


def _faults(provenance: Provenance, prints: Footprints) -> list[Diagnostic]:
    return [fault_diagnostic(provenance, prints.faults, row) for row in range(min(len(prints.faults), MOST + 1))]


def footprint_comments(program: Program) -> Callable[[int], str]:
    """The comment of an instruction, by its index.

    Host registers count as 0, so addresses are relative to them. Contents loaded into control memories are not in a program:
    of addresses that depend on it only the memory is named. Raises UserError E0501 for a program that deadlocks.
    """
    prints, unknown = prepare_program(program, new_state(program.machine)).footprints, controlled(program.machine)
    return lambda index: comment(prints, index, unknown)
