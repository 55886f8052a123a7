"""Operations of every kind for VTA's kernels, and what the integer reference says that they give."""

from collections.abc import Mapping
from dataclasses import asdict

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.operations import made
from toolchain.analysis.checks import check_program
from toolchain.analysis.state import State
from toolchain.emulator import engine_named
from toolchain.isa.checks import portability
from toolchain.isa.program import Program
from toolchain.operations.operation import Operation
from toolchain.schedule.compile_operation import TimedOperation
from toolchain.spec.model.quantisation import Numerics

Image = NDArray[np.int8]
NUMERICS = Numerics(rounding="half_up", order="shift_first")


def expected(operation: Operation, inputs: Mapping[str, Image]) -> Image:
    """By the integer reference, from the operation's own numbers."""
    return operation.run(inputs, NUMERICS)


def inputs_of(operation: Operation, seed: int = 1) -> dict[str, Image]:
    """Random ones, the least and the largest value among them."""
    rng = np.random.default_rng(seed)
    return {name: rng.integers(-128, 128, operation.input(name), np.int8) for name in operation.kind.data}


def ran(program: Program, state: State, engine: str = "fast") -> None:
    """Checked (no race, no deadlock, every address in range), then run."""
    engine_named(engine)(program, state, check_program(program, state).order)


def exact(choice: TimedOperation, operation: Operation, engine: str = "fast") -> bool:
    """Uses only what all implementations have; ran and compared."""
    program, inputs = choice.compiled.program, inputs_of(operation)
    assert not portability(program)
    state = choice.compiled.state(**inputs)
    ran(program, state, engine)
    return np.array_equal(choice.compiled.result(state, "y"), expected(operation, inputs))


CHANNELS = st.sampled_from([1, 3, 16, 17, 40])
SHIFTS = st.sampled_from([0, 1, 7, 15, 16, 24])
SMALL = st.integers(1, 3)


@st.composite
def endings(draw: st.DrawFn) -> made.Requantise:
    """Shifts on both sides of what one instruction moves by; limits that clip and that do not; leaky slopes of one digit and of many."""
    low, high = draw(st.sampled_from([(0, 127), (-128, 127), (-100, 6)]))
    slope, slope_shift = draw(st.sampled_from([(0, 0), (0, 0), (26, 8), (13, 7), (1, 1), (1, 3), (127, 7), (205, 11)]))
    return made.Requantise(draw(SHIFTS), low, high, slope, slope_shift)


@st.composite
def windows(draw: st.DrawFn, most: int = 4) -> tuple[made.Window, tuple[int, int]]:
    """A window with pads smaller than its reach, and a picture that it fits into."""
    kernel, dilations = draw(st.tuples(st.integers(1, most), st.integers(1, most))), draw(st.tuples(st.integers(1, 2), st.integers(1, 2)))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = draw(st.tuples(*(st.integers(0, reach[k % 2] - 1) for k in range(4))))
    least = [max(reach[k] - pads[k] - pads[k + 2], 1) for k in (0, 1)]
    height, width = (draw(st.integers(n, max(n, 11))) for n in least)
    return made.Window(kernel, draw(st.tuples(SMALL, SMALL)), pads, dilations), (height, width)


def _inside(found: tuple[made.Window, tuple[int, int]]) -> bool:
    """Whether no window of a pool is all padding, as ONNX Runtime counts it."""
    window, size = found
    near = all(extent >= step for extent, step in zip(size, window.dilations, strict=True))
    return near and all(pad < size for pad, size in zip(window.pads, (*window.kernel, *window.kernel), strict=True))


def _shape(draw: st.DrawFn, size: tuple[int, int]) -> tuple[int, int, int, int]:
    return draw(st.integers(1, 2)), draw(CHANNELS), *size


@st.composite
def leaky_convolutions(draw: st.DrawFn) -> Operation:
    """Sums far beyond what is stored, and sums that are not shifted at all."""
    window, size = draw(windows(3).filter(lambda found: found[0].kernel != found[1]))
    shape, end = _shape(draw, size), draw(endings())
    rng, most = np.random.default_rng(draw(st.integers(0, 99))), draw(st.sampled_from([2, 127]))
    outputs, bias = draw(CHANNELS), draw(st.sampled_from([63, 5000, 1 << 29]))
    weight = rng.integers(-most, most + 1, (outputs, shape[1], *window.kernel), np.int8)
    bias = rng.integers(-bias, bias + 1, outputs).astype(np.int32)
    return made.conv2d("conv", shape, weight, bias, window.strides, window.pads, dilations=window.dilations, **asdict(end))


@st.composite
def dense_layers(draw: st.DrawFn) -> Operation:
    """Kernels as large as the picture, one picture and many."""
    size, end = draw(st.tuples(st.integers(1, 5), st.integers(1, 5))), draw(endings())
    shape = draw(st.integers(1, 9)), draw(CHANNELS), *size
    rng, bias = np.random.default_rng(draw(st.integers(0, 99))), draw(st.sampled_from([63, 5000, 1 << 29]))
    outputs = draw(st.sampled_from([1, 10, 70]))
    weight = rng.integers(-128, 128, (outputs, shape[1], *size), np.int8)
    bias = rng.integers(-bias, bias + 1, outputs).astype(np.int32)
    return made.conv2d("dense", shape, weight, bias, **asdict(end))


@st.composite
def first_layers(draw: st.DrawFn) -> Operation:
    """Even strides over few channels: what can be stored two by two pixels side by side."""
    kernel = draw(st.tuples(st.integers(2, 7), st.integers(2, 7)))
    pads = draw(st.tuples(*(st.integers(0, kernel[k % 2] - 1) for k in range(4))))
    height, width = (draw(st.integers(max(kernel[k] - pads[k] - pads[k + 2], 1), 13)) for k in (0, 1))
    shape, end = (draw(st.integers(1, 2)), draw(st.integers(1, 4)), height, width), draw(endings())
    rng, outputs = np.random.default_rng(draw(st.integers(0, 99))), draw(CHANNELS)
    weight = rng.integers(-128, 128, (outputs, shape[1], *kernel), np.int8)
    bias, strides = rng.integers(-5000, 5001, outputs).astype(np.int32), draw(st.tuples(st.sampled_from([2, 4]), st.sampled_from([2, 4])))
    return made.conv2d("first", shape, weight, bias, strides, pads, **asdict(end))


@st.composite
def depthwises(draw: st.DrawFn) -> Operation:
    window, size = draw(windows())
    shape = _shape(draw, size)
    rng, bias = np.random.default_rng(draw(st.integers(0, 99))), draw(st.sampled_from([0, 63, 5000, 1 << 29]))
    weight = rng.integers(-128, 128, (shape[1], *window.kernel), np.int8)
    return made.depthwise("depthwise", shape, weight, rng.integers(-bias, bias + 1, shape[1]).astype(np.int32), window, draw(endings()))


@st.composite
def average_pools(draw: st.DrawFn) -> Operation:
    window, size = draw(windows().filter(lambda found: found[0].kernel != found[1]).filter(_inside))
    return made.average_pool("average", _shape(draw, size), window, draw(st.sampled_from([1, 7, 21, 64, 127, -3])), draw(endings()))


@st.composite
def global_pools(draw: st.DrawFn) -> Operation:
    size = draw(st.tuples(st.integers(1, 11), st.integers(1, 11)))
    return made.average_pool("global", _shape(draw, size), made.Window(size), draw(st.sampled_from([1, 7, 21, 64, 127, -3])), draw(endings()))


@st.composite
def max_pools(draw: st.DrawFn) -> Operation:
    window, size = draw(windows(7).filter(_inside))
    return made.max_pool("max", _shape(draw, size), window)


@st.composite
def additions(draw: st.DrawFn) -> Operation:
    size = draw(st.tuples(st.integers(1, 9), st.integers(1, 9)))
    factor = st.sampled_from([1, 2, 33, 64, -1])
    return made.add("add", _shape(draw, size), draw(factor), draw(factor), draw(endings()))


@st.composite
def upsamples(draw: st.DrawFn) -> Operation:
    size = draw(st.tuples(st.integers(1, 9), st.integers(1, 9)))
    return made.upsample("upsample", _shape(draw, size), draw(st.tuples(SMALL, SMALL)))
