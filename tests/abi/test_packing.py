"""Tensors in DRAM against the layout written out by hand, and back again.

Grids of tensors against an index for every element.
"""

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.schedule.convolutions import convolution, image
from toolchain.abi.packing import MOST_GRIDS, Packing, cut_axis, find_grids, view_packing
from toolchain.schedule.compile_operation import pack_tensors
from toolchain.schedule.kernels.kernel_file import load_kernel
from toolchain.schedule.kernels.problem import state_problem
from toolchain.spec.load import load_machine
from toolchain.spec.model import Layout, Machine

TARGETS = sorted(path.stem for path in (Path(__file__).parents[2] / "targets").glob("*.yaml"))
MACHINES = {name: load_machine(name) for name in TARGETS}
LAYOUTS = [(machine, layout) for machine in MACHINES.values() for layout in machine.layouts]
NAMES = [f"{machine.name}-{layout.name}" for machine, layout in LAYOUTS]


def packed(machine: Machine, layout: Layout, extents: tuple[int, ...]) -> Packing:
    view = next(v for v in machine.views if machine.memory[v.memory].kind == "dram")
    return view_packing(machine, view.name, layout.name, extents)


def check(packing: Packing, seed: int) -> None:
    """Both ways, beside bytes of others, as the index of each element says."""
    draw = np.random.default_rng(seed)
    data = draw.integers(0, 256, packing.bytes, np.uint8)
    values = draw.integers(-100, 100, packing.extents).astype(packing.dtype)
    assert np.array_equal(packing.fetch(data), data.view(packing.dtype).reshape(packing.shape)[packing.index])
    wanted = data.view(packing.dtype).reshape(packing.shape).copy()
    for index in packing.places:
        wanted[index] = values
    packing.insert(data, values)
    assert data.tobytes() == wanted.tobytes()
    wanted[:] = 0
    for index in packing.places:
        wanted[index] = values
    assert packing.store(values) == wanted.tobytes()


@pytest.mark.parametrize(("machine", "layout"), LAYOUTS, ids=NAMES)
@given(data=st.data())
def test_every_layout_of_every_machine_is_what_its_index_says(machine: Machine, layout: Layout, data: st.DataObject) -> None:
    most = {1: 300, 2: 100, 3: 20}.get(len(layout.domain), 11)
    extents = tuple(data.draw(st.integers(1, 37 if name == "c" else most)) for name in layout.domain)
    whole = packed(machine, layout, extents)
    check(whole, data.draw(st.integers(0, 9)))
    axis = data.draw(st.integers(0, len(extents) - 1))
    first = data.draw(st.integers(0, extents[axis] - 1))
    check(whole.part(axis, first, data.draw(st.integers(1, extents[axis] - first))), 0)


@pytest.mark.parametrize(("machine", "layout"), LAYOUTS, ids=NAMES)
def test_no_layout_of_a_machine_needs_an_index_for_every_element(machine: Machine, layout: Layout) -> None:
    sizes = {"n": 3, "h": 7, "w": 9, "c": 64, "o": 40, "i": 40, "b": 3, "k": 256, "u": 3, "v": 5, "r": 2}
    packing = packed(machine, layout, tuple(sizes[name] for name in layout.domain))
    assert all(find_grids(index, packing.shape) for index in packing.places)


def blocks_of_blocks(size: int, radix: int, steps: tuple[int, int, int]) -> list[int]:
    return [i % radix * steps[0] + i // radix % radix * steps[1] + i // radix**2 * steps[2] for i in range(size)]


STEP = st.integers(-9, 9)
OFFSETS = st.lists(st.integers(-50, 50), min_size=1, max_size=40) | st.builds(
    blocks_of_blocks, st.integers(1, 40), st.integers(2, 5), st.tuples(STEP, STEP, STEP)
)


@given(OFFSETS)
def test_the_pieces_of_an_axis_say_where_each_index_stands(places: list[int]) -> None:
    found: list[int] = []
    for piece in cut_axis(np.array(places, np.int64)):
        assert piece.first == len(found)
        digits = itertools.product(*(range(count) for count, _ in piece.levels))
        found += [piece.start + sum(digit * step for digit, (_, step) in zip(number, piece.levels, strict=True)) for number in digits]
        assert piece.size == len(found) - piece.first
    assert found == places


def test_an_axis_in_blocks_of_blocks_is_one_piece_and_its_rest_another() -> None:
    i = np.arange(40)
    assert [(p.first, p.start, p.levels) for p in cut_axis(i // 16 * 100 + i % 16 // 2 * 16 + i % 2)] == [
        (0, 0, ((2, 100), (8, 16), (2, 1))),
        (32, 200, ((4, 16), (2, 1))),
    ]


def test_what_is_not_regular_or_outside_has_no_grids() -> None:
    rows, columns = np.arange(6).reshape(6, 1), np.arange(4).reshape(1, 4)
    assert find_grids((rows, columns), (6, 4))
    assert find_grids((rows, columns), (5, 4)) is None
    assert find_grids((rows - 1, columns), (6, 4)) is None
    assert find_grids((rows, rows * columns % 4), (6, 4)) is None
    squares = np.arange(4 * MOST_GRIDS) ** 2
    assert find_grids((squares,), (int(squares[-1]) + 1,)) is None


MACHINE = load_machine("vta")
OPERATION = convolution((1, 20, 3, 2), (17, 2, 3), pads=(0, 1, 0, 1), bias=200_000)
PROBLEM = state_problem(MACHINE, load_kernel(MACHINE, "conv2d"), OPERATION)
TENSORS = pack_tensors(PROBLEM)


def test_what_is_stored_comes_back() -> None:
    x = image(OPERATION)
    packing = TENSORS.packings["x"]
    stored = packing.store(x)
    assert len(stored) == packing.bytes == 2 * 3 * 2 * 16
    assert np.array_equal(packing.fetch(stored), x)


def test_a_tensor_of_another_shape_or_range_is_refused() -> None:
    with pytest.raises(ValueError, match="the tensor is"):
        TENSORS.packings["x"].store(np.zeros((1, 20, 2, 3), np.int8))
    with pytest.raises(ValueError, match="int8 does not hold"):
        TENSORS.packings["x"].store(np.full((1, 20, 3, 2), 128))


def test_a_part_starts_where_its_first_element_stands() -> None:
    whole = view_packing(load_machine("dpuv3"), "ddr.word", "activations", (4, 8, 3, 40))
    last = whole.part(3, 32, 8)
    assert (whole.start, last.start, last.part(3, 0, 4).start) == (0, 2 * 4 * 16, 2 * 4 * 16)


def test_strips_of_eight_rows_overlap() -> None:
    """Row r of a strip that begins at row 2 * s - 6 and pair p of a row's numbers is element r of the lower or upper half of a word."""
    x = np.random.default_rng(0).integers(-128, 128, (4, 10, 6, 3), np.int8)
    packing = view_packing(load_machine("dpuv3"), "ddr.word", "strips", x.shape)
    stored = np.frombuffer(packing.store(x), np.int8).reshape(packing.shape)
    rows = np.zeros((4, 6 + 10 + 6, 18), np.int8)
    rows[:, 6:16] = x.reshape(4, 10, 18)
    assert stored.shape == (1, 8, 9, 4, 16)
    for strip in range(8):
        numbers = rows[:, 2 * strip : 2 * strip + 8].reshape(4, 8, 9, 2)
        assert np.array_equal(stored[0, strip].reshape(9, 4, 2, 8), numbers.transpose(2, 0, 3, 1))
    assert np.array_equal(packing.fetch(packing.store(x)), x)
    assert packing.start == 0


def test_bf16_is_held_in_float32() -> None:
    """Two bytes an element; a number of more bits is refused."""
    packing = view_packing(load_machine("stcp920:bf16"), "ddr", "activations", (1, 2, 3, 40))
    numbers = np.array([1.0, -0.0, np.inf, -3.5, 2.0**-130, np.nan], np.float32)
    values = np.resize(numbers, (1, 2, 3, 40))
    data = packing.store(values)
    assert len(data) == packing.bytes == 1 * 2 * 3 * 64 * 2
    found = packing.fetch(data)
    assert found.dtype == np.float32
    assert np.array_equal(found.view(np.uint32), values.view(np.uint32))
    part = packing.part(1, 1, 1)
    assert np.array_equal(part.fetch(data), values[:, 1:], equal_nan=True)
    with pytest.raises(ValueError, match="bf16 does not hold"):
        packing.store(values + np.float32(2**-12))
