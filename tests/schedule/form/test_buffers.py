"""Tensors in a memory of several streams: moved by hand they stay exact, in an instance that not all streams have they are refused."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.schedule.form.edits import Edit, edited, read
from tests.schedule.form.test_shares import four, refused
from tests.schedule.many_cores import chip
from tests.schedule.test_compile_region import proven, three_convolutions
from tests.schedule.test_options import exact
from tests.schedule.tiling.test_near_weights import found, slow
from toolchain.schedule.compile_region import compile_region, find_schedule
from toolchain.schedule.form.files import write_schedule
from toolchain.schedule.form.plan import Schedule, ScheduledOperation
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options
from toolchain.spec.errors import UserError

FAULTS: dict[str, Edit] = {
    "twice": lambda held: held["buffers"].append(dict(held["buffers"][0])),
    "stored": lambda held: held["buffers"][0].update(stored=True),
    "a ring": lambda held: held["buffers"][0].update(pitch=40),
    "another bank": lambda held: held["buffers"][0].update(bank=1),
    "outside": lambda held: held["buffers"][0].update(address=2020),
    "on another": lambda held: held["buffers"][1].update(address=35),
    "a result": lambda held: held["buffers"][0].update(tensor="y"),
}


def test_tensors_between_operations_stand_in_the_memory_of_all_their_streams() -> None:
    machine, region, text = four()
    compiled = compile_region(machine, load_kernels(machine), region, None, read(text))
    assert [compiled.map.memory_of(name) for name in "xtuy"] == [("ddr", 0), ("llb", 0), ("llb", 0), ("ddr", 0)]
    assert compiled.map.segments["swap"].bytes == 0
    assert compiled.peak["llb"] == 2 * 36


def test_a_buffer_can_be_moved_and_left_out() -> None:
    machine, region, text = four()

    def edit(held: dict[str, list[dict[str, object]]]) -> None:
        held["buffers"][0].update(address=1000)
        del held["buffers"][1]

    compiled = compile_region(machine, load_kernels(machine), region, None, read(edited(text, edit)))
    assert compiled.map.memory_of("u") == ("ddr", 0)
    assert compiled.map.tensors["t"].offset == 1000 * 32
    assert all(proven(compiled, machine, seed) for seed in (None, 1))


def test_each_cluster_has_one_of_its_own() -> None:
    machine, region = chip(2, 2), three_convolutions(6)
    kernels = load_kernels(machine)
    assert not find_schedule(machine, kernels, region, Options(streams=3, timed_streams=False)).buffers
    text = write_schedule(find_schedule(machine, kernels, region, Options(streams=2, timed_streams=False)))
    shares = [group.streams for group in read(text).groups]

    def second(held: dict[str, list[dict[str, object]]]) -> None:
        for entry, group in zip(held["groups"], shares, strict=True):
            entry["streams"] = [[2 + stream, tiles] for stream, tiles in group]

    compiled = compile_region(machine, kernels, region, None, read(edited(text, second)))
    assert compiled.map.memory_of("t") == ("llb", 1)
    assert all(proven(compiled, machine, seed) for seed in (None, 1))

    def apart(held: dict[str, list[dict[str, object]]]) -> None:
        held["groups"][1]["streams"] = [[2 + stream, tiles] for stream, tiles in shares[1]]

    told = refused(machine, region, lambda: read(edited(text, apart)))
    assert "E1404 't' cannot stay on chip: streams with a 'llb' of their own make or read it; without an entry it goes through DRAM" in told


def test_every_fault_in_its_line(golden: Callable[[str, str], None]) -> None:
    machine, region, text = four()
    told = {name: refused(machine, region, lambda edit=edit: read(edited(text, edit))) for name, edit in FAULTS.items()}
    golden("schedule/shared_faults.txt", "".join(f"## {name}\n{text}\n" for name, text in told.items()))


Change = Callable[[tuple[int, int]], dict[str, tuple[int, int]]]


def changed(schedule: Schedule, change: Change) -> Schedule:
    """With another room of the first weights that wait."""
    number = next(n for n, group in enumerate(schedule.groups) if any(each.near for each in group.operations))
    group = schedule.groups[number]

    def own(each: ScheduledOperation) -> ScheduledOperation:
        return replace(each, near=change(each.near["w"])) if each.near else each

    groups = (*schedule.groups[:number], replace(group, operations=tuple(map(own, group.operations))), *schedule.groups[number + 1 :])
    return replace(schedule, groups=groups)


ROOMS: list[tuple[Change, str]] = [
    (lambda room: {"w": (room[0], room[1] - 1)}, r"E1404 'w' of '.*' has a room of \d+ elements, and its tiles need \d+"),
    (lambda room: {"w": (0, room[1])}, r"E1404 'w' of '.*' takes 0 to \d+ of 'llb', where the room for weights is \d+ to \d+"),
    (lambda room: {"w": (room[0] + (1 << 20), room[1])}, r"E1404 'w' of '.*' takes \d+ to \d+ of 'llb'"),
    (lambda room: {"p": room}, r"E1404 'p' of '.*' cannot wait in a memory that streams share: kernel 'conv2d' does not say so"),
]
"""A change of the room, and the words of the error."""


@pytest.mark.parametrize(("change", "told"), ROOMS)
def test_rooms_that_cannot_be_are_refused(change: Change, told: str) -> None:
    region, schedule = found(8, 1)
    with pytest.raises(UserError, match=told):
        compile_region(slow(), load_kernels(slow()), region, None, changed(schedule, change))


def test_copies_take_weights_that_wait_at_once() -> None:
    region, schedule = found(8, 1)
    assert schedule.multicast
    with pytest.raises(UserError, match=r"E1404 weights of '.*' wait in a memory of several copies.*multicast: true"):
        compile_region(slow(), load_kernels(slow()), region, None, replace(schedule, multicast=False))


def test_a_room_elsewhere_in_the_room_for_weights_is_as_good() -> None:
    """Its operation overwrites the weights of the one before when these have been loaded."""
    region, schedule = found(8, 1)
    start = slow().memory["llb"].bytes // 32 - schedule.copies.weights
    compiled = compile_region(slow(), load_kernels(slow()), region, None, changed(schedule, lambda room: {"w": (start, room[1])}))
    assert compiled.checked
    assert exact(compiled, slow(), 1)
