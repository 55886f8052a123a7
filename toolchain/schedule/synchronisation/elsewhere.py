"""The synchronisation of a program for another one that does the same on other streams, with its tensors elsewhere."""

from dataclasses import dataclass

import numpy as np

from toolchain.isa.checks import build_program
from toolchain.isa.encode import encode_streams
from toolchain.isa.program import Ints, Program
from toolchain.isa.semantics.instances import places
from toolchain.schedule.synchronisation.events import Events, find_events
from toolchain.schedule.synchronisation.synchronise import Synchronised
from toolchain.spec.model import Machine
from toolchain.spec.model.storage import neighbours


@dataclass(frozen=True)
class Solved:
    """A program without tokens, and the same with them."""

    plain: Program
    done: Synchronised

    def serves(self, other: Program) -> bool:
        """Whether another program has the same instructions in the same order, whatever their fields, on as many streams: each alone, or in the same
        places of other instances of the levels above theirs."""
        one, apart = self.plain, np.unique(other.stream - self.plain.stream) if len(other) == len(self.plain) else ()
        if len(apart) != 1 or not (np.array_equal(one.kind, other.kind) and np.array_equal(one.unit, other.unit)):
            return False
        return apart[0] % neighbours(one.machine.levels) == 0 or len(np.unique(one.stream)) == 1


def moved_elsewhere(known: Solved, plain: Program) -> Synchronised:
    """plain: a program that the known one serves.

    The order and the tokens are the known one's: both have the same dependences where tensors are apart and overlap alike, which the checks of the
    finished program do not take for granted."""
    machine, done, source = plain.machine, known.done, known.done.source
    columns = [_column_of(done, plain, kind) for kind in range(len(machine.instructions))]
    first = int(done.program.stream.min()), int(plain.stream.min())
    events = find_events(machine)
    if events:
        _signal_here(machine, events, first[1], columns[events.signal.kind], source[done.program.kind == events.signal.kind] < 0)
    stream = done.program.stream + first[1] - first[0]
    streams, offset = encode_streams(machine, done.program.kind, stream, columns)
    return Synchronised(build_program(machine, streams, done.program.kind, stream, offset, tuple(columns)), source, done.tokens)


def _column_of(done: Synchronised, plain: Program, kind: int) -> dict[str, Ints]:
    """Tokens as they were, and all other fields of instructions that were not added from the plain program."""
    source = done.source[done.program.kind == kind]
    given = source >= 0
    found = {name: column.copy() for name, column in done.program.columns[kind].items()}
    for described in plain.machine.instructions[kind].fields:
        if described.name in found and described.role != "sync":
            found[described.name][given] = plain.columns[kind][described.name][plain.row[source[given]]]
    return found


def _signal_here(machine: Machine, events: Events, stream: int, columns: dict[str, Ints], added: np.typing.NDArray[np.bool_]) -> None:
    """Signals to streams of the same instance of every level above theirs."""
    here = places(machine, stream)[0]
    for level in events.levels[:-1]:
        if level.name in events.signal.masks:
            columns[events.signal.masks[level.name]][added] = 1 << here[level.name]
