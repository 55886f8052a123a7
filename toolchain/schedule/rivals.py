"""Rivals: tensors and tiles that different units need on chip at the same time, as the simulation of a program shows.

Where the ports of banks are limited, such units wait for each other if both stand in the same banks. So rivals go into different pools.
"""

import itertools
from bisect import bisect_right
from collections.abc import Iterator, Mapping

import numpy as np

from toolchain.abi.origins import NONE, Origins
from toolchain.schedule.form.plan import Plan
from toolchain.schedule.kernels.pools import Slot
from toolchain.schedule.stray_accesses import slot_spans
from toolchain.schedule.unit_balance import working_units
from toolchain.spec.model import Machine
from toolchain.timing.simulate import Timeline

BESIDE = 0.3
"""The share of the shorter one's cycles in which an operation and its neighbour on other units count as working at once, where waits hide it."""
WHOLE = -1
Owner = tuple[int, str]
"""WHOLE and a buffer that stays on chip, or an operation and a place of its tiles."""
Rivals = Mapping[Owner, Mapping[Owner, float]]
"""Each with its rivals, and the cycles in which one unit needs one while another unit needs the other. Every pair stands there twice."""
Uses = Mapping[int, frozenset[tuple[Owner, bool]]]
"""By instruction, the owners of the room that it reads and of the room that it writes (True)."""


def has_ports(machine: Machine) -> bool:
    """Whether units may have to wait for the ports of some bank."""
    return any(memory.ports for memory in machine.memories)


def find_rivals(plan: Plan, origins: Origins, timeline: Timeline) -> Rivals:
    """Rivals in memories with limited ports. origins: operations by their place in the plan."""
    uses, found = _uses(plan, origins, timeline), dict[Owner, dict[Owner, float]]()
    for first, second, cycles in _overlaps(timeline, uses):
        for one, other in sorted({(a, b) for a, wrote in uses[first] for b, writes in uses[second] if wrote == writes and a != b}):
            for a, b in ((one, other), (other, one)):
                own = found.setdefault(a, {})
                own[b] = own.get(b, 0.0) + cycles
    return found


def neighbour_rivals(plan: Plan) -> Rivals:
    """Buffers on chip that neighbouring operations of different units read, or write. In a program that was timed such neighbours may wait for each
    other's banks instead of working at once, so that their rivalry does not show."""
    found = dict[Owner, dict[Owner, float]]()
    for (first, one), (second, other) in itertools.pairwise(enumerate(plan.problems)):
        if working_units(one.steps) & working_units(other.steps):
            continue
        cycles = BESIDE * min(plan.tilings[first].estimate, plan.tilings[second].estimate)
        pairs = itertools.product(_buffers(plan, first), _buffers(plan, second))
        for a, b in sorted({(a, b) for (a, wrote), (b, writes) in pairs if wrote == writes and a != b}):
            for whose, of in ((a, b), (b, a)):
                own = found.setdefault(whose, {})
                own[of] = own.get(of, 0.0) + cycles
    return found


def renumbered(rivals: Rivals, numbers: Mapping[int, int]) -> Rivals:
    """The same rivals where operations have other numbers."""

    def owner(old: Owner) -> Owner:
        return (numbers.get(old[0], WHOLE), old[1])

    return {owner(own): {owner(other): cycles for other, cycles in found.items()} for own, found in rivals.items()}


def joined(one: Rivals, other: Rivals) -> Rivals:
    """All rivals, those of both with the larger number of cycles."""
    found = {owner: dict(rivals) for owner, rivals in one.items()}
    for owner, rivals in other.items():
        own = found.setdefault(owner, {})
        own |= {rival: max(own.get(rival, 0.0), cycles) for rival, cycles in rivals.items()}
    return found


def _buffers(plan: Plan, index: int) -> list[tuple[Owner, bool]]:
    """The buffers on chip that an operation reads, and the one that it writes (True)."""
    tensors = plan.region.operations[index].tensors
    return [((WHOLE, plan.dram.places[tensors[name]][0]), name == "y") for name in plan.problems[index].kept if name in tensors]


def among_buffers(rivals: Rivals) -> dict[str, dict[str, float]]:
    """The rivals among buffers that stay on chip, by name."""
    return {
        name: {other: cycles for (whose, other), cycles in found.items() if whose == WHOLE}
        for (number, name), found in rivals.items()
        if number == WHOLE
    }


def _uses(plan: Plan, origins: Origins, timeline: Timeline) -> Uses:
    machine, runs = timeline.program.machine, timeline.footprints.runs
    found: dict[int, set[tuple[Owner, bool]]] = {}
    for number, memory in enumerate(machine.memories):
        chosen = runs.take((runs.memory == number) & bool(memory.ports))
        operation = origins.operation[chosen.instruction]
        for index, write in itertools.product(np.unique(operation[operation != NONE]).tolist(), (False, True)):
            mine, stands = chosen.take((operation == index) & (chosen.write == write)), _stands(machine, plan, index, memory.name, write)
            starts = [start for start, *_ in stands]
            for instruction, at in zip(mine.instruction.tolist(), mine.start.tolist(), strict=True):
                place = bisect_right(starts, at) - 1
                if place >= 0 and at < stands[place][2]:
                    found.setdefault(instruction, set()).add((stands[place][3], write))
    return {instruction: frozenset(own) for instruction, own in found.items()}


def _stands(machine: Machine, plan: Plan, index: int, memory: str, write: bool) -> list[tuple[int, bool, int, Owner]]:
    """(start, whether it is the one that is meant, stop), in granules of the first instance, of everything that an operation has in a memory. Where a
    buffer is made over another, the one that is meant comes last: the one that is written, or else the other."""
    made = {name for name, candidate in plan.residents.candidates.items() if any(use.operation == index for use in candidate.writes)}
    problem, tiling, tensors = plan.problems[index], plan.tilings[index], plan.region.operations[index].tensors
    found = [(name, kept.slot, kept.size, (WHOLE, plan.dram.places[tensors[name]][0])) for name, kept in problem.kept.items()]
    found += [(name, slot, tiling.room[name], (index, name)) for name, slots in tiling.places.items() if name not in problem.kept for slot in slots]
    banks = range(problem.kernel.pools.get(memory, 1))
    return sorted(
        (start, (owner[1] in made) == write, stop, owner)
        for name, slot, room, owner in found
        if problem.memories[name] == memory
        for bank in banks
        for start, stop in slot_spans(machine.memory[memory], Slot(slot.bank + bank, slot.address), room)
    )


def _overlaps(timeline: Timeline, uses: Uses) -> Iterator[tuple[int, int, float]]:
    """Instructions of different units that work at the same time, and for how many cycles."""
    units: dict[int, list[int]] = {}
    start, end = (column.tolist() for column in (timeline.result.start + timeline.costs.setup, timeline.result.end))
    for instruction in sorted(uses, key=lambda index: start[index]):
        units.setdefault(int(timeline.program.queue[instruction]), []).append(instruction)
    queues = list(units.values())
    for number, own in enumerate(queues):
        for others in queues[:number]:
            at = 0
            for one in own:
                while at < len(others) and end[others[at]] <= start[one]:
                    at += 1
                for other in others[at:]:
                    if start[other] >= end[one]:
                        break
                    yield one, other, min(end[one], end[other]) - max(start[one], start[other])
