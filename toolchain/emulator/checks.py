"""Everything that is checked before a program runs: addresses, control memories, stale registers, races, leftover tokens."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from toolchain.emulator.clocks import Clocks, happens_before
from toolchain.emulator.footprints import footprints
from toolchain.emulator.hazard_text import hazard_diagnostic, relevant
from toolchain.emulator.hazards import Hazards, Timeline
from toolchain.emulator.hazards_native import hazards
from toolchain.emulator.in_place import self_conflicts
from toolchain.emulator.queues import issue_order, leftovers, queue_table
from toolchain.emulator.stale import stale_reads
from toolchain.emulator.state import State
from toolchain.emulator.sync_checks import sync_faults
from toolchain.isa.checks import MOST, limited
from toolchain.isa.footprint import Footprints
from toolchain.isa.footprint_text import fault_diagnostic, range_text
from toolchain.isa.latched_checks import latched_violations
from toolchain.isa.portable import portability
from toolchain.isa.program import Ints, Program
from toolchain.isa.provenance import Provenance
from toolchain.isa.sync_tokens import sync_tokens
from toolchain.spec.errors import Diagnostic


@dataclass(frozen=True)
class Checked:
    """A program that may run. order: as it executes without time. warnings: what is worth knowing, nothing that forbids."""

    order: Ints
    footprints: Footprints
    provenance: Provenance
    warnings: tuple[Diagnostic, ...]


def check_program(program: Program, state: State, preset: Iterable[str] = ()) -> Checked:
    """Checks a program against what stands in memory before it runs; `preset` names on-chip memories that the host fills.

    Raises one UserError with all that is wrong: E05xx for a deadlock, else E0404 for constraints on latched registers and
    everything from E0601 to E0611, the first 20.
    """
    tokens = sync_tokens(program)
    order = issue_order(program, None, tokens)
    provenance = Provenance(program, state, order)
    prints = footprints(program, state, order, provenance)
    clocks = happens_before(program, order, tokens)
    found = relevant(prints, hazards(prints, _timeline(program, order, provenance, clocks)), frozenset(preset))
    diagnostics = [
        *sync_faults(program, tokens, order, clocks),
        *latched_violations(provenance),
        *_faults(provenance, prints),
        *_overwritten(prints),
        *stale_reads(provenance),
        *self_conflicts(provenance, prints),
    ]
    severe = np.array([m.hazard == "error" for m in program.machine.memories])[found.memory] if len(found) else np.zeros(0, np.bool_)
    diagnostics += _first(prints, found, np.flatnonzero(severe))
    if diagnostics:
        raise limited(diagnostics)
    mild = _first(prints, found, np.flatnonzero(~severe))
    return Checked(order, prints, provenance, (*_shortened(mild, int((~severe).sum())), *leftovers(program, tokens), *portability(program)))


def prepare_program(program: Program, state: State) -> Checked:
    """What a run and its timing need, without looking for hazards. Raises UserError E0501 for a deadlock: then there is no order."""
    order = issue_order(program)
    provenance = Provenance(program, state, order)
    return Checked(order, footprints(program, state, order, provenance), provenance, ())


def _timeline(program: Program, order: Ints, provenance: Provenance, clocks: Clocks) -> Timeline:
    place = queue_table(program.queue, program.queues).position
    return Timeline(order, provenance.position, program.queue, place, clocks)


def _first(prints: Footprints, found: Hazards, rows: Ints) -> list[Diagnostic]:
    return [hazard_diagnostic(prints, found, row) for row in rows[: MOST + 1].tolist()]


def _shortened(found: list[Diagnostic], total: int) -> list[Diagnostic]:
    if total <= MOST:
        return found
    return [*found[: MOST - 1], Diagnostic("E0601", f"{total - MOST + 1} more warnings of this kind", severity="warning")]


def _faults(provenance: Provenance, prints: Footprints) -> list[Diagnostic]:
    return [fault_diagnostic(provenance, prints.faults, row) for row in range(min(len(prints.faults), MOST + 1))]


def _overwritten(prints: Footprints) -> Iterator[Diagnostic]:
    """E0608 where the program stores over what it loads a control memory from: its addresses would depend on data."""
    feeds, runs = prints.feeds, prints.runs
    for memory in np.unique(feeds.memory).tolist():
        sources, stores = feeds.take(feeds.memory == memory), runs.take((runs.memory == memory) & runs.write)
        if not len(stores):
            continue
        rank = np.argsort(stores.start, kind="stable")
        stores = stores.take(rank)
        reach = np.maximum.accumulate(stores.stop)
        # The last store that starts before a source ends: some store meets the source if the farthest of those before it does.
        last = np.searchsorted(stores.start, sources.stop) - 1
        meets = (last >= 0) & (reach[np.maximum(last, 0)] > sources.start)
        for row in np.flatnonzero(meets)[: MOST + 1].tolist():
            writer = int(np.argmax((stores.start < sources.stop[row]) & (stores.stop > sources.start[row])))
            low, high = max(int(stores.start[writer]), int(sources.start[row])), min(int(stores.stop[writer]), int(sources.stop[row]))
            program = prints.program
            loader, storer = program.label(int(sources.instruction[row])), program.label(int(stores.instruction[writer]))
            message = f"{loader} loads control from {range_text(program.machine, memory, low, high)}, where {storer} stores"
            yield Diagnostic("E0608", message, hint="addresses must not depend on data that the program computes")
