"""Operations whose tensors stay in the feature memory of dpuv3: read there, left there, or both, beside channels of others."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.operations import made
from tests.schedule.convolutions import convolution
from tests.targets.dpuv3_operations import expected, inputs, kernel, machine
from tests.targets.test_dpuv3_kernels import additions, convolutions, depthwise, pools, unit_averages
from toolchain.analysis.checks import check_program
from toolchain.analysis.state import State
from toolchain.emulator import engine_named
from toolchain.operations.operation import Operation
from toolchain.schedule.compile_operation import emit_alone, pack_tensors
from toolchain.schedule.kernels.kernel_file import load_kernel
from toolchain.schedule.kernels.pools import Pool, Slot
from toolchain.schedule.kernels.problem import Kept, Problem, keep_on_chip, state_problem
from toolchain.schedule.tiling.tiles import rank_tilings
from toolchain.spec.evaluate import constant
from toolchain.spec.load import load_machine

Array = NDArray[Any]
FREE = {"fm": (Pool(0, 2048, 6144), Pool(8, 2048, 6144), Pool(16, 4096)), "pm": (Pool(0, 8192),)}
SLOTS = {"x": Slot(0, 100), "z": Slot(0, 3000), "y": Slot(8, 200)}
DEPTHS = [8192] * 16 + [4096] * 8


@dataclass(frozen=True)
class Buffer:
    """A tensor of `shape` [batch, channels, height, width] as channels from `channel` on of `channels` in feature memory."""

    shape: tuple[int, int, int, int]
    channels: int
    channel: int

    def words(self, slot: Slot) -> tuple[Array, Array, Array, Array]:
        """(image, word of all banks, lane) of every element, and which channel it is; as arrays of the tensor's shape."""
        n, c, h, w = np.meshgrid(*map(np.arange, self.shape), indexing="ij")
        groups = -(-self.channels // 16)
        there = c + self.channel
        address = slot.address + (h // 8 * self.shape[3] + w) * groups + there // 16
        return n, (slot.bank + h % 8) * 8192 + address, there % 16, c


def put(state: State, buffer: Buffer, slot: Slot, values: Array) -> None:
    n, word, lane, _ = buffer.words(slot)
    state.memories["fm"].view(np.int8).reshape(len(state.memories["fm"]), -1, 16)[n, word, lane] = values


def get(state: State, buffer: Buffer, slot: Slot) -> Array:
    n, word, lane, _ = buffer.words(slot)
    return state.memories["fm"].view(np.int8).reshape(len(state.memories["fm"]), -1, 16)[n, word, lane]


def kept_of(problem: Problem, name: str, buffer: Buffer, slot: Slot) -> Kept | None:
    """The tensor on chip, or None where the kernel does not take it so."""
    whole = next(p.whole for p in problem.kernel.places if p.name == name)
    assert whole is not None
    scope = {**problem.numbers, f"{name}_channels": buffer.channels, f"{name}_channel": buffer.channel}
    if whole.when is not None and not constant(whole.when, scope):
        return None
    assert constant(whole.size, scope) == -(-buffer.shape[2] // 8) * buffer.shape[3] * -(-buffer.channels // 16)
    return Kept(slot, constant(whole.size, scope), {key: constant(e, scope) for key, e in whole.names.items()})


@cache
def _anything(shape: tuple[int, ...]) -> Array:
    """Bytes that stand in feature memory before: drawn once, as there are 10 MB a case."""
    return np.random.default_rng(0).integers(0, 256, shape, np.uint8)


def run(operation: Operation, names: str, before: int = 0, after: int = 0, over: bool = False, by: str = "", pieces: bool = False) -> bool:
    """Compiled with the tensors of these names on chip, each between so many channels of others; False where that cannot be. by: the kernel.

    pieces: a tile has as few channels as it may, and a result on chip is stored to DRAM as well."""
    problem = state_problem(machine(), kernel(by or operation.kind.name), operation)
    given_values = inputs(operation)
    shapes: Mapping[str, tuple[int, ...]] = {**{name: value.shape for name, value in given_values.items()}, "y": operation.output}
    buffers = {name: Buffer(tuple(shapes[name]), shapes[name][1] + before + after, before) for name in names if name in shapes}
    slots = {name: SLOTS["x" if over and name == "y" else name] for name in buffers}
    kept = {name: kept_of(problem, name, buffer, slots[name]) for name, buffer in buffers.items()}
    there = {name: item for name, item in kept.items() if item is not None}
    if not buffers or len(there) < len(kept) or any(buffer.shape[0] != 4 for buffer in buffers.values()):
        return False
    problem = keep_on_chip(problem, there, pieces, FREE)
    tilings = rank_tilings(problem, 2, 1 << 20 if pieces else 1)
    compiled = emit_alone(problem, min(tilings, key=lambda t: t.sizes["oc"]) if pieces else tilings[0], pack_tensors(problem))
    state = compiled.state(**{name: value.transpose(0, 2, 3, 1) for name, value in given_values.items() if name not in there})
    memory = state.memories["fm"].view(np.uint8)
    memory[...] = _anything(memory.shape)
    for name, value in given_values.items():
        if name in there:
            put(state, buffers[name], slots[name], value)
    checked = check_program(compiled.program, state, ["fm"])
    engine_named("fast")(compiled.program, state, checked.order)
    if "y" in there:
        np.testing.assert_array_equal(get(state, buffers["y"], slots["y"]), expected(operation, given_values))
    if "y" not in there or pieces:
        np.testing.assert_array_equal(compiled.result(state, "y").transpose(0, 3, 1, 2), expected(operation, given_values))
    return True


WHICH = st.sampled_from(["x", "y", "xy"])
OTHERS = st.sampled_from([(0, 0), (16, 0), (32, 20)])


@settings(max_examples=7, deadline=None)
@given(convolutions(), WHICH, OTHERS)
def test_convolutions(operation: Operation, names: str, others: tuple[int, int]) -> None:
    assume(run(operation, names, *others))


@settings(max_examples=7, deadline=None)
@given(depthwise(), WHICH, OTHERS)
def test_depthwise_convolutions(operation: Operation, names: str, others: tuple[int, int]) -> None:
    assume(run(operation, names, *others))


@settings(max_examples=7, deadline=None)
@given(st.booleans().flatmap(lambda average: pools(average)), WHICH, OTHERS)
def test_pools(operation: Operation, names: str, others: tuple[int, int]) -> None:
    assume(run(operation, names, *others))


@settings(max_examples=7, deadline=None)
@given(unit_averages(), WHICH, OTHERS)
def test_averages_in_the_pool_unit(operation: Operation, names: str, others: tuple[int, int]) -> None:
    assume(run(operation, names, *others, by="mean_pool"))


@settings(max_examples=7, deadline=None)
@given(additions(), st.sampled_from(["x", "z", "xy", "xz", "xzy"]), OTHERS, st.booleans())
def test_sums(operation: Operation, names: str, others: tuple[int, int], over: bool) -> None:
    assume(run(operation, names, *others, over=over and "x" in names and "y" in names))


@settings(max_examples=6, deadline=None)
@given(st.sampled_from([3, 16, 40]), st.integers(1, 11), st.integers(1, 9), st.integers(1, 3), st.integers(1, 3), WHICH, OTHERS)
def test_enlargements(channels: int, height: int, width: int, factor_h: int, factor_w: int, names: str, others: tuple[int, int]) -> None:
    assume(run(made.upsample("up", (4, channels, height, width), (factor_h, factor_w)), names, *others))


@pytest.mark.parametrize("stride", [1, 2, 3, 5])
@pytest.mark.parametrize("size", [1, 3])
def test_strides_on_a_kept_tensor(stride: int, size: int) -> None:
    assert run(convolution((4, 40, 23, 21), (20, size, size), strides=(stride, stride), pads=(size // 2,) * 4), "xy")


WINDOWS = ((1, 1, 1), (3, 3, 1), (1, 7, 1), (7, 1, 1), (3, 3, 2), (2, 5, 3))
"""Rows and columns of a kernel, and its stride."""


def last_rows(height: int, window: tuple[int, int, int]) -> Operation:
    """A convolution with results of so many rows and columns, and enough channels that packing its last rows saves more than it costs."""
    kh, kw, stride = window
    size = (height - 1) * stride + 1
    pads = (kh // 2, kw // 2, kh - 1 - kh // 2, kw - 1 - kw // 2)
    return convolution((4, 40, size, size), (520 if kh * kw == 1 else 260, kh, kw), strides=(stride, stride), pads=pads)


HEIGHTS = (4, 6, 10, 12, 13, 14, 15, 17, 19)
WAYS: tuple[Mapping[str, Any], ...] = ({"names": "xy", "before": 16, "after": 20}, {"names": "x"}, {"names": "xy", "pieces": True})
"""Between channels of others, stored from where they are made, in pieces beside each other."""
ALL = bool(os.environ.get("TILEWRIGHT_SLOW"))


def ways(place: int, **more: int) -> Iterator[Mapping[str, Any]]:
    """One for each place of a table, so that every row and every column of it has all of them; with TILEWRIGHT_SLOW all of them for each."""
    yield from ({**way, **more} for way in (WAYS if ALL else (WAYS[place % len(WAYS)],)))


@pytest.mark.drawn(14)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("height", HEIGHTS)
def test_last_rows_are_computed_as_eight(height: int, window: tuple[int, int, int]) -> None:
    """Fewer than eight rows of results."""
    for way in ways(HEIGHTS.index(height) + WINDOWS.index(window)):
        assert run(last_rows(height, window), **way)


@pytest.mark.drawn(6)
@pytest.mark.parametrize("stride", [2, 3])
@pytest.mark.parametrize("height", HEIGHTS)
def test_last_rows_of_every_so_manyth_pixel_are_computed_as_eight(height: int, stride: int) -> None:
    for way in ways(HEIGHTS.index(height) + stride, before=0, after=0):  # every so manyth pixel is read of a tensor of its own
        assert run(last_rows(height, (1, 1, stride)), **way)


@pytest.mark.parametrize(("height", "window", "packs"), [
    (14, (1, 1, 1), True), (14, (1, 1, 2), True), (28, (1, 1, 3), True),
    (14, (3, 3, 1), True), (17, (7, 1, 1), True), (17, (1, 7, 1), True), (28, (3, 3, 2), True),
    (16, (3, 3, 1), False), (7, (3, 3, 1), False), (1, (1, 1, 1), False), (17, (9, 9, 1), False),
])  # fmt: skip
def test_rows_are_packed_where_that_saves_work(height: int, window: tuple[int, int, int], packs: bool) -> None:
    problem = state_problem(machine(), kernel("conv2d"), last_rows(height, window))
    assert bool(problem.numbers["packs"]) == packs
    if packs:
        rest, width = height % 8, height
        assert problem.numbers["long"] < width
        assert rest * width <= 8 * problem.numbers["long"]


def test_one_port_makes_each_copied_word_cost_a_cycle() -> None:
    """Of 14 rows a 1x1 convolution saves three cycles a group of results, and ELEW reads 53 words: 17 groups pay where ELEW and CONV read at once."""
    few = convolution((4, 40, 14, 14), (260, 1, 1))
    machines = {ports: load_machine("dpuv3", "", {"LOWEST": "-128", "BANK_PORTS": ports}) for ports in ("0", "1")}
    packed = {ports: state_problem(each, load_kernel(each, "conv2d"), few).numbers["packs"] for ports, each in machines.items()}
    assert packed == {"0": 1, "1": 0}


@pytest.mark.parametrize(("by", "stride"), [("strips", 2), ("squares", 2), ("columns", 1)])
def test_first_layers_leave_their_results_there(by: str, stride: int) -> None:
    kernel = 7 if by == "strips" else 3
    operation = convolution((4, 3, 37, 30), (20, kernel, kernel), strides=(stride, stride), pads=(kernel // 2,) * 4)
    assert run(operation, "y", 16, 32, by=by)


ENLARGED = ((4, 2, 1, 0), (3, 2, 1, 1), (2, 2, 0, 0), (5, 3, 2, 1), (1, 2, 0, 0), (6, 3, 2, 0))
SIDES = [
    pytest.param(*way, names, marks=pytest.mark.nightly if names != "xy" and way in ENLARGED[2:] else ())  # one side alone for two windows
    for way in ENLARGED
    for names in ("x", "y", "xy")
]


@pytest.mark.drawn(7)
@pytest.mark.parametrize("by", ["sub_convolutions", "stuffed"])
@pytest.mark.parametrize(("size", "stride", "pad", "more", "names"), SIDES)
def test_transposed_convolutions(size: int, stride: int, pad: int, more: int, names: str, by: str) -> None:
    """Rows of the result that are computed together stand apart in its banks."""
    weight = np.random.default_rng(0).integers(-50, 50, (40, 20, size, size), np.int8)
    operation = made.conv_transpose("up", (4, 20, 11, 9), weight, (stride, stride), (pad,) * 4, (more, more))
    assert run(operation, names, 16, 20, by=by)
