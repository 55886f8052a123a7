"""The rooms of weights that wait in a memory that streams share, as a schedule has them."""

from collections.abc import Iterator, Sequence

from toolchain.schedule.form.plan import Schedule, ScheduledOperation
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.tiling.near_weights import near_size, room_start, waiting, whole_size, with_room
from toolchain.schedule.tiling.tiles import Tiling
from toolchain.spec.errors import Diagnostic, UserError, nearest
from toolchain.spec.model import Machine
from toolchain.spec.yaml_nodes import Path


def read_near(machine: Machine, schedule: Schedule, problems: Sequence[Problem], tilings: Sequence[Tiling]) -> list[Problem]:
    """The operations with the rooms of their weights. Raises UserError E1404 for a room that cannot be as the schedule says."""
    found, faults = list[Problem](), list[Diagnostic]()
    for (path, operation), problem, tiling, number in zip(schedule.entries(), problems, tilings, schedule.numbers, strict=True):
        group = schedule.groups[number]
        if len(group.operations) > 1 and operation.near:
            faults.append(schedule.fault("E1404", f"weights of '{operation.name}' cannot wait: it shares a loop with others", (*path, "near")))
        faults += _faults(machine, schedule, (path, operation), (problem, tiling), max(len(group.streams), 1))
        for tensor, room in operation.near.items():
            problem = with_room(problem, tensor, *room)
        found.append(problem)
    if faults:
        raise UserError(*faults)
    return found


def _faults(
    machine: Machine, schedule: Schedule, entry: tuple[Path, ScheduledOperation], planned: tuple[Problem, Tiling], streams: int
) -> Iterator[Diagnostic]:
    """streams: that share the operation's tiles."""
    (path, operation), (problem, tiling) = entry, planned
    able = {tensor.name: (tensor, waits) for tensor, waits in waiting(problem)}
    for name, (first, size) in operation.near.items():
        place = (*path, "near", name)
        if name not in able:
            text = f"'{name}' of '{operation.name}' cannot wait in a memory that streams share: kernel '{operation.kernel}' does not say so"
            yield schedule.fault("E1404", text, place, nearest(name, able))
            continue
        tensor, waits = able[name]
        whole, start = whole_size(problem, tensor, waits), room_start(machine, waits.memory, schedule.copies.weights)
        needed = near_size(problem, tiling, waits.by, whole, streams)
        if size != needed:
            yield schedule.fault("E1404", f"'{name}' of '{operation.name}' has a room of {size} elements, and its tiles need {needed}", place)
        elif first < start or first + size > start + schedule.copies.weights:
            text = f"'{name}' of '{operation.name}' takes {first} to {first + size - 1} of '{waits.memory}'"
            yield schedule.fault("E1404", f"{text}, where the room for weights is {start} to {start + schedule.copies.weights - 1}", place)
