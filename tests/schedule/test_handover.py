"""The wait after a convolution, for an addition behind it: against tiles counted by hand; and tiles that shorten it."""

from dataclasses import replace

import pytest

from tests.operations import made
from tests.operations.made import load_machine
from tests.schedule.convolutions import convolution
from toolchain.operations.floating import Bounds
from toolchain.operations.library import kinds_of
from toolchain.operations.operation import make_operation
from toolchain.schedule.handover import Handover
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.kernels.problem import Problem, state_problem
from toolchain.schedule.tiling.tile_group import touched
from toolchain.schedule.tiling.tiles import Tiling, rank_tilings

MACHINE = load_machine("dpuv3")
KERNELS = load_kernels(MACHINE)
SIZE = (4, 512, 7, 7)
WHOLE = {"n": (0, 1), "oc": (0, 32), "oh": (0, 7), "ow": (0, 7)}


def tiling(problem: Problem, estimate: float, **sizes: int) -> Tiling:
    """Tiles of these sizes, said to take so many cycles."""
    found = next(each for each in rank_tilings(problem, 1, 1 << 20) if all(each.sizes[name] == size for name, size in sizes.items()))
    return replace(found, estimate=estimate)


def handover(made_by: int, wanted: dict[str, tuple[int, int]] = WHOLE) -> Handover:
    """From a convolution in tiles of so many channel groups, in 8000 cycles, through an addition."""
    maker = state_problem(MACHINE, KERNELS["conv2d"], convolution((4, 64, 7, 7), (512, 1, 1)))
    problem = state_problem(MACHINE, KERNELS["add"], made.add("add", SIZE, 1, 1, made.Requantise(0)))
    reaches = {name: reach for name, (reach, _) in touched(maker, problem, "x")}
    return Handover(maker, tiling(maker, 8000.0, oc=made_by, oh=7, ow=7), problem, reaches, wanted)


def test_no_reaches_are_known_of_stages() -> None:
    """A softmax between two products, as on a machine that computes it where its operand stands."""
    machine = load_machine("stcp920:f16")
    kernels, kinds = load_kernels(machine), kinds_of(machine)
    pictures, rows = {"x": (1, 32, 8, 1), "z": (1, 64, 32, 1)}, {"x": (1, 64, 8, 1)}
    maker = state_problem(machine, kernels["matmul"], make_operation(kinds["matmul"], "made", pictures, {}, Bounds().numbers))
    reader = state_problem(machine, kernels["softmax"], make_operation(kinds["softmax"], "read", rows, {}, {}))
    assert not dict(touched(maker, reader, "x"))


@pytest.mark.parametrize(("made_by", "added_by", "wait"), [(32, 32, 3200), (4, 32, 3200), (4, 4, 400), (4, 8, 800), (8, 4, 800), (4, 2, 400)])
def test_the_work_on_the_last_tile_is_left(made_by: int, added_by: int, wait: float) -> None:
    case = handover(made_by)
    assert case.wait(tiling(case.problem, 3200.0, oc=added_by, oh=7, ow=7)) == pytest.approx(wait)


def test_a_slow_addition_is_left_after_all_that_it_could_do_before() -> None:
    case = handover(4)
    assert case.wait(tiling(case.problem, 16000.0, oc=4, oh=7, ow=7)) == pytest.approx(1000 + 16000 - 8000)


def test_the_next_operation_waits_for_no_more_than_it_reads_first() -> None:
    case = handover(4, {**WHOLE, "oc": (0, 4)})
    assert case.wait(tiling(case.problem, 3200.0, oc=4, oh=7, ow=7)) == 0


def test_four_rows_are_there_when_their_instruction_ends() -> None:
    """The addition takes seven rows in two instructions."""
    case = handover(4, {**WHOLE, "oh": (0, 4)})
    assert case.wait(tiling(case.problem, 3200.0, oc=32, oh=7, ow=7)) == pytest.approx(1600)


@pytest.mark.parametrize("made_by", [4, 8, 32])
def test_the_wait_after_other_tiles_of_the_maker_is_that_of_a_handover_of_their_own(made_by: int) -> None:
    case, other = handover(16), handover(made_by)
    mine = tiling(case.problem, 3200.0, oc=8, oh=7, ow=7)
    case.wait(mine)
    assert replace(case, made=other.made).wait(mine) == other.wait(mine)
