"""Rooms of weights that wait, as a user may have written them."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.schedule.test_near_choice import found, slow
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.form.plan import Schedule, ScheduledOperation
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.spec.errors import UserError

Change = Callable[[tuple[int, int]], dict[str, tuple[int, int]]]


def changed(schedule: Schedule, change: Change) -> Schedule:
    """With another room of the first weights that wait."""
    number = next(n for n, group in enumerate(schedule.groups) if any(each.near for each in group.operations))
    group = schedule.groups[number]

    def own(each: ScheduledOperation) -> ScheduledOperation:
        return replace(each, near=change(each.near["w"])) if each.near else each

    groups = (*schedule.groups[:number], replace(group, operations=tuple(map(own, group.operations))), *schedule.groups[number + 1 :])
    return replace(schedule, groups=groups)


FAULTS: list[tuple[Change, str]] = [
    (lambda room: {"w": (room[0], room[1] - 1)}, r"E1404 'w' of '.*' has a room of \d+ elements, and its tiles need \d+"),
    (lambda room: {"w": (0, room[1])}, r"E1404 'w' of '.*' takes 0 to \d+ of 'llb', where the room for weights is \d+ to \d+"),
    (lambda room: {"w": (room[0] + (1 << 20), room[1])}, r"E1404 'w' of '.*' takes \d+ to \d+ of 'llb'"),
    (lambda room: {"p": room}, r"E1404 'p' of '.*' cannot wait in a memory that streams share: kernel 'conv2d' does not say so"),
]
"""A change of the room, and the words of the error."""


@pytest.mark.parametrize(("change", "told"), FAULTS)
def test_rooms_that_cannot_be_are_refused(change: Change, told: str) -> None:
    region, schedule = found(8, 1)
    with pytest.raises(UserError, match=told):
        compile_region(slow(), load_kernels(slow()), region, None, changed(schedule, change))


def test_a_room_elsewhere_in_the_room_for_weights_is_as_good() -> None:
    """Its operation overwrites the weights of the one before when these have been loaded."""
    region, schedule = found(8, 1)
    start = slow().memory["llb"].bytes // 32 - schedule.copies.weights
    compiled = compile_region(slow(), load_kernels(slow()), region, None, changed(schedule, lambda room: {"w": (start, room[1])}))
    assert compiled.checked
