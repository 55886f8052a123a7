"""Slots that go round: inside the memory, apart from each other, and not where the last operation's were while there is room."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.schedule.convolutions import convolution
from toolchain.schedule.kernels.kernel_file import load_kernel
from toolchain.schedule.kernels.problem import state_problem
from toolchain.schedule.tiling.rotation import Rotation
from toolchain.schedule.tiling.tiles import rank_tilings
from toolchain.spec.load import load_machine

MACHINE = load_machine("vta")
KERNEL = load_kernel(MACHINE, "conv2d")
SHAPES = [(16, 6), (32, 10), (64, 14), (256, 14)]
PROBLEMS = [state_problem(MACHINE, KERNEL, convolution((1, c, s, s), (c, 3, 3), pads=(1, 1, 1, 1))) for c, s in SHAPES]
TILINGS = [rank_tilings(problem, 2, 1)[0] for problem in PROBLEMS]
MEMORY_OF = {p.name: p.memory for p in KERNEL.places}


def taken(number: int, rotation: Rotation) -> list[tuple[str, int, int]]:
    """Memory, start and end of every slot."""
    (turned,) = rotation.turn([(PROBLEMS[number], TILINGS[number])])
    assert turned.slots == TILINGS[number].slots
    return [(MEMORY_OF[name], slot.address, slot.address + turned.room[name]) for name, held in turned.places.items() for slot in held]


@given(st.lists(st.integers(0, len(SHAPES) - 1), max_size=8))
def test_slots_stay_inside_and_apart(numbers: list[int]) -> None:
    rotation = Rotation()
    for number in numbers:
        found = sorted(taken(number, rotation))
        assert all(stop <= sum(MACHINE.memory[memory].depths) for memory, _, stop in found)
        assert all(a[0] != b[0] or a[2] <= b[1] for a, b in pairwise(found))


def test_the_next_operation_starts_where_the_last_one_ended() -> None:
    rotation = Rotation()
    first, second = taken(0, rotation), taken(0, rotation)
    assert all(a[0] != b[0] or a[2] <= b[1] or b[2] <= a[1] for a in first for b in second)


def test_what_does_not_fit_behind_goes_on_at_the_start() -> None:
    rotation = Rotation()
    first, second = ([(start, stop) for memory, start, stop in taken(3, rotation) if memory == "acc"] for _ in range(2))
    assert second[0][0] == first[-1][1]
    assert second[1][0] == 0
    assert second[0][1] + (second[1][1] - second[1][0]) > sum(MACHINE.memory["acc"].depths)
