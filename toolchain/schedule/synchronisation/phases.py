"""Streams that meet only by standing still: their work falls into phases, and between two of them all streams stop until all have stopped."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from toolchain.analysis.dependences import find_dependences_across
from toolchain.analysis.footprints import footprints
from toolchain.analysis.state import State
from toolchain.isa.footprint.provenance import Provenance
from toolchain.isa.program import Ints, Program
from toolchain.isa.sync_encoding import sync_encoding
from toolchain.schedule.synchronisation.event_lines import signals
from toolchain.schedule.synchronisation.events import Events, find_events
from toolchain.schedule.synchronisation.plan import ADDED
from toolchain.schedule.synchronisation.rewrite import Table, without_tokens, write
from toolchain.schedule.synchronisation.synchronise import Synchronised, synchronise
from toolchain.spec.model import Machine

Line = tuple[int, int, Mapping[str, int]]
"""An instruction of a barrier: kind, unit, fields."""


def stopping_events(machine: Machine) -> Events | None:
    """The machine's events, where whoever waits for one stands still as a whole (`stops`); else None."""
    events = find_events(machine)
    return events if events and any(counter.stops for counter in machine.counters if counter.name == events.counter) else None


def synchronise_phases(program: Program, order: Ints, state: State, events: Events) -> Synchronised:
    """As `synchronise_streams`, on a machine whose events stop a stream: each stream's own counters inside a phase, and a barrier of all streams
    between two phases. An instruction that needs another stream's is in a later phase than that one, and there are as few phases as that allows.

    Raises UserError E0520 where the machine cannot express a wait that is needed.
    """
    plain = without_tokens(program, sync_encoding(program.machine))
    phase = _phases(plain, order, state)
    met, source = write(plain, _with_barriers(plain, phase, events), sync_encoding(program.machine))
    done = synchronise(met, state)
    return replace(done, source=np.append(source, ADDED)[done.source])


def _phases(program: Program, order: Ints, state: State) -> Ints:
    """int64 [n], the phase of each instruction. A stream's end is in the last of all, so that every stream is at every barrier."""
    provenance = Provenance(program, state, order)
    needs = find_dependences_across(program, order, footprints(program, state, order, provenance).runs, provenance).needs
    stream, phase, current = program.stream, np.zeros(len(program), np.int64), np.zeros(program.machine.streams, np.int64)
    numbers: list[int] = order.tolist()
    for index in numbers:
        earlier = needs[index][needs[index] >= 0]
        phase[index] = np.max(phase[earlier] + (stream[earlier] != stream[index]), initial=int(current[stream[index]]))
        current[stream[index]] = phase[index]
    phase[[np.flatnonzero(stream == number)[-1] for number in np.unique(stream)]] = phase.max()
    return phase


def _with_barriers(program: Program, phase: Ints, events: Events) -> Table:
    """The instructions without the events that there were, and a barrier wherever a stream goes from one phase to the next."""
    barrier = list(_barrier(program.machine, events, np.unique(program.stream).tolist()))
    kept = ~np.isin(program.kind, list(events.kinds))
    rows, fields = list[tuple[int, int, int, int]](), dict[int, Mapping[str, int]]()
    for stream in np.unique(program.stream).tolist():
        passed = 0
        for index in np.flatnonzero((program.stream == stream) & kept).tolist():
            for kind, unit, own in barrier * (int(phase[index]) - passed):
                fields[len(rows)] = own
                rows.append((ADDED, kind, unit, stream))
            passed = int(phase[index])
            rows.append((index, int(program.kind[index]), int(program.unit[index]), stream))
    source, kind, unit, streams = np.array(rows, np.int64).T
    return Table(source, kind, unit, streams, fields, ())


def _barrier(machine: Machine, events: Events, streams: list[int]) -> Iterator[Line]:
    """Every stream tells all of them that it has stopped, and waits until it was told by all."""
    unit = next(unit for unit in events.signal.units if unit in events.wait.units)
    for event, masks in signals(machine, events, [(0, stream) for stream in streams]):
        yield events.signal.kind, unit, events.signal.fields(unit, event, masks)
    left = len(streams)
    while left:
        amount = min(left, events.wait.most)
        yield events.wait.kind, unit, events.wait.fields(unit, 0, {}, amount)
        left -= amount
