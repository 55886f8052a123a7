"""Tiles that wait come once, before their first load, and never over one that is still to be loaded; all other steps stay as they are."""

from collections.abc import Sequence
from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from tests.schedule.convolutions import convolution
from toolchain.schedule.form.bringing import LOADS_AHEAD, StreamStep, moments, turn_starts, with_bringing
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.kernels.problem import Problem, state_problem
from toolchain.schedule.tiling.near_weights import with_room
from toolchain.schedule.tiling.order import Instance
from toolchain.schedule.tiling.slots import Slot
from toolchain.spec.load import load_machine

Loads = Sequence[tuple[int, bool]]


def marked(begins: Sequence[tuple[int, int]]) -> list[tuple[int, bool]]:
    """begins: block and part of each load."""
    return [(block, pair not in begins[:number]) for number, (block, _) in enumerate(begins) for pair in [begins[number]]]


@given(st.integers(1, 5), st.integers(1, 6), st.integers(1, 4))
def test_blocks_in_turn_come_at_an_even_pace_during_the_block_before(blocks: int, parts: int, images: int) -> None:
    """Two blocks wait at a time: a tile comes when the block before the last is loaded for the last time, and before it is loaded itself."""
    begins = [(block, part) for block in range(blocks) for _ in range(images) for part in range(parts)]
    found = list(moments(marked(begins)))
    size = parts * images
    assert [begins[number] for number, _ in found] == [(block, part) for block in range(blocks) for part in range(parts)]
    for number, moment in found:
        block, part = begins[number]
        assert moment <= number
        assert moment >= (block - 1) * size
        if block:
            assert moment == (block - 1) * size + part * images


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=40))
def test_every_tile_comes_once_before_its_first_load(begins: list[tuple[int, int]]) -> None:
    loads = marked(begins)
    found = list(moments(loads))
    assert [number for number, _ in found] == [number for number, (_, first) in enumerate(loads) if first]
    assert all(moment <= number for number, moment in found)
    if len({block for block, _ in begins}) < sum(one != other for (one, _), (other, _) in zip([(-1, 0), *begins], begins, strict=False)):
        assert all(moment == max(number - LOADS_AHEAD, 0) for number, moment in found)


@cache
def problem() -> Problem:
    machine = load_machine("stcp920")
    return state_problem(machine, load_kernels(machine)["conv2d"], convolution((1, 64, 14, 14), (96, 3, 3), pads=(1, 1, 1, 1)))


def load(c: int, i: int, problem: Problem) -> Instance:
    step = problem.loads("w")
    assert step is not None
    return Instance(step, {"n": (0, 1), "c": (c, 1), "oh": (0, 14), "ow": (0, 14), "i": (i, 1), "u": (0, 3), "v": (0, 3)}, {"w": Slot(0, 0)})


def other(problem: Problem) -> Instance:
    step = next(step for step in problem.steps if step.kind == "compute")
    return Instance(step, load(0, 0, problem).tile, {})


def test_steps_are_added_at_the_beginning_of_turns() -> None:
    """Two streams that load the same: the first of them brings it. Another cluster brings its own."""
    near = with_room(problem(), "w", 0, 1 << 10)
    given = [StreamStep(0, stream, made) for c in range(3) for i in range(2) for made in (load(c, i, near), other(near)) for stream in (0, 1, 8)]
    found = with_bringing([near], given)
    assert [each for each in found if not each.brings] == given
    brought = [(each.stream, each.item.tile["c"][0], each.item.tile["i"][0]) for each in found if each.brings]
    assert sorted(brought) == [(stream, c, i) for stream in (0, 8) for c in range(3) for i in range(2)]
    kept = [number for number, each in enumerate(found) if not each.brings]
    starts = {kept[start] for start in turn_starts([each.stream for each in given])}
    assert all(found[number + 1].brings or number + 1 in starts for number, each in enumerate(found) if each.brings)
    assert [each.brings for each in found[:7]] == [True] * 6 + [False]  # the first block, and the first tile of the next, of each cluster


def test_operations_whose_weights_do_not_wait_stay_as_they_are() -> None:
    given = [StreamStep(0, 0, load(0, 0, problem()))]
    assert with_bringing([problem()], given) is given
