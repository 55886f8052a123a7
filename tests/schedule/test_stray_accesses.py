"""Granules of slots by hand, also round the end of a ring, and the first instruction that leaves its buffers."""

from dataclasses import replace

import pytest

from tests.schedule.convolutions import convolution
from tests.schedule.test_compile_region import KERNELS, MACHINES, two_convolutions
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.form.realise import realise
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.kernels.pools import Slot
from toolchain.schedule.kernels.problem import state_problem
from toolchain.schedule.program import ordered_steps
from toolchain.schedule.stray_accesses import Buffer, Rooms, check_buffers, rooms_of, slot_spans
from toolchain.schedule.tiling.near_weights import with_room
from toolchain.schedule.tiling.order import order_steps
from toolchain.schedule.tiling.slots import find_rings
from toolchain.schedule.tiling.tiles import rank_tilings
from toolchain.schedule.writer import part_of
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine

MACHINE = MACHINES["vta"]


def granules(memory: str, slot: Slot, room: int) -> list[tuple[int, int]]:
    return slot_spans(MACHINES["dpuv3"].memory[memory], slot, room)


def test_a_slot_is_a_stretch_of_its_bank() -> None:
    memory = MACHINES["dpuv3"].memory["fm"]
    each = memory.element.bytes // memory.granule
    first = sum(memory.depths[:8]) * each
    assert granules("fm", Slot(8, 10), 5) == [(first + 10 * each, first + 15 * each)]


def test_a_ring_goes_on_at_the_beginning_of_its_bank() -> None:
    memory = MACHINES["dpuv3"].memory["fm"]
    assert memory.kind == "ring"
    each, depth = memory.element.bytes // memory.granule, memory.depths[0]
    assert granules("fm", Slot(0, depth - 2), 5) == [((depth - 2) * each, depth * each), (0, 3 * each)]
    assert granules("fm", Slot(0, depth + 1), 2) == [(each, 3 * each)]


@pytest.mark.parametrize("name", ["x", "w", "y"])
def test_instructions_stay_inside_buffers_and_not_in_smaller_ones(name: str) -> None:
    compiled = compile_region(MACHINE, KERNELS["vta"], two_convolutions())
    plan = realise(MACHINE, KERNELS["vta"], compiled.region, compiled.schedule)
    steps = ordered_steps(plan, find_rings(plan.problems))
    rooms = [rooms_of(part, tiling) for part, tiling in zip(steps.parts, plan.tilings, strict=True)]
    check_buffers(MACHINE, rooms, compiled.origins, compiled.checked.footprints)
    small = [Rooms(rooms[0].part, {**rooms[0].room, name: rooms[0].room[name] - 1}), rooms[1]]
    with pytest.raises(UserError, match=rf"E1307 step '\w+ \w+' of 'first': #\d+ \w+ (reads|writes) .*{rooms[0].part.problem.memories[name]}"):
        check_buffers(MACHINE, small, compiled.origins, compiled.checked.footprints)


def test_a_buffer_is_one_of_the_step_and_its_places() -> None:
    plan = realise(MACHINE, KERNELS["vta"], two_convolutions(), compile_region(MACHINE, KERNELS["vta"], two_convolutions()).schedule)
    part = ordered_steps(plan, find_rings(plan.problems)).parts[0]
    rooms = rooms_of(part, plan.tilings[0])
    assert rooms.room == plan.tilings[0].room
    load = next(item for item in part.steps if (item.step.kind, item.step.place) == ("load", "x"))
    assert rooms.buffers(load) == (("inp", load.slots["x"], rooms.room["x"]),)
    moved = replace(load, slots={"x": Slot(0, 7)})
    assert rooms.buffers(moved) == (("inp", Slot(0, 7), rooms.room["x"]),)


def test_the_room_in_which_weights_wait_is_a_buffer_of_their_load_alone() -> None:
    """Brought and loaded from elsewhere they are right, as long as no other tensor stands there."""
    machine = load_machine("stcp920")
    problem = state_problem(machine, load_kernels(machine)["conv2d"], convolution((1, 64, 14, 14), (96, 3, 3), pads=(1, 1, 1, 1)))
    tiling = rank_tilings(problem, 1, 1)[0]
    near = with_room(problem, "w", 1000, 64)
    for given, rooms in ((problem, set[Buffer]()), (near, {("llb", Slot(0, 1000), 64)})):
        found = rooms_of(part_of(given, order_steps(given, tiling)), tiling)
        load, compute = (
            next(item for item in found.part.steps if (item.step.kind, item.step.place) == wanted) for wanted in (("load", "w"), ("compute", "s"))
        )
        assert {each for each in found.buffers(load) if each[0] == "llb"} == rooms
        assert ("llb" in found.held(load)) == bool(rooms)
        assert "llb" not in found.held(compute)
