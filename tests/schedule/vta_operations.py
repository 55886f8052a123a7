"""Operations of every kind for VTA's kernels, and what the integer reference says that they give."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from toolchain.emulator.checks import check_program
from toolchain.emulator.engines import engine_named
from toolchain.emulator.state import State
from toolchain.graph.integer_reference import evaluate
from toolchain.graph.numerics import Numerics
from toolchain.isa.portable import portability
from toolchain.isa.program import Program
from toolchain.schedule.compile import Choice
from toolchain.schedule.operations.add import Add
from toolchain.schedule.operations.conv2d import Conv2d
from toolchain.schedule.operations.depthwise import Depthwise
from toolchain.schedule.operations.operation import Operation
from toolchain.schedule.operations.pool import AveragePool, MaxPool
from toolchain.schedule.operations.requantise import Requantise
from toolchain.schedule.operations.upsample import Upsample
from toolchain.schedule.operations.window import Window

Image = NDArray[np.int8]
NUMERICS = Numerics(rounding="half_up", order="shift_first")
KIND_OF = {"depthwise": "conv2d", "average_pool": "conv2d"}


def largest(operation: Operation, x: Image) -> Image:
    """The largest value of each window, dilated ones too."""
    n = operation.numbers
    rows, columns = (n["pad_top"], n["pad_bottom"]), (n["pad_left"], n["pad_right"])
    padded = np.pad(x, ((0, 0), (0, 0), rows, columns), constant_values=-128)
    reach = (n["kh"] - 1) * n["dh"] + 1, (n["kw"] - 1) * n["dw"] + 1
    view = np.lib.stride_tricks.sliding_window_view(padded, reach, (2, 3))
    return view[:, :, :: n["sh"], :: n["sw"], :: n["dh"], :: n["dw"]].max((-2, -1))


def expected(operation: Operation, inputs: Mapping[str, Image]) -> Image:
    """By the integer reference, from the operation's own numbers."""
    n, arrays = operation.numbers, operation.arrays
    attributes: dict[str, Any] = {**n, "bias_shift": 0, "group": 1, "multiply_y": n.get("multiply_z", 0)}
    operands = [inputs["x"], *([inputs["z"]] if "z" in inputs else [])]
    if "kh" in n:
        attributes |= {"kernel_shape": (n["kh"], n["kw"]), "strides": (n["sh"], n["sw"]), "dilations": (n["dh"], n["dw"])}
        attributes["pads"] = tuple(n[f"pad_{side}"] for side in ("top", "left", "bottom", "right"))
    if operation.kind == "depthwise":
        attributes["group"] = n["channels"]
        operands += [arrays["weight"][:, None], arrays["bias"]]
    elif operation.kind == "conv2d":
        operands += [arrays["weight"], arrays["bias"]]
    attributes["factors"] = n.get("factor_h"), n.get("factor_w")
    if operation.kind == "max_pool":
        return largest(operation, inputs["x"])
    if operation.kind == "average_pool":  # as a convolution: the pools of the reference know no dilation
        taps = np.full((n["channels"], 1, n["kh"], n["kw"]), n["multiply"], np.int8)
        attributes["group"], operands = n["channels"], [inputs["x"], taps, np.zeros(n["channels"], np.int32)]
    activation = "leaky" if n.get("slope_shift") else ""
    return evaluate(KIND_OF.get(operation.kind, operation.kind), activation, attributes, operands, NUMERICS)


def inputs_of(operation: Operation, seed: int = 1) -> dict[str, Image]:
    """Random ones, the least and the largest value among them."""
    rng, n = np.random.default_rng(seed), operation.numbers
    shape = n["batch"], n.get("channels", n.get("in_channels", 0)), n["height"], n["width"]
    found = {"x": rng.integers(-128, 128, shape, np.int8)}
    return found | ({"z": rng.integers(-128, 128, shape, np.int8)} if operation.kind == "add" else {})


def ran(program: Program, state: State, engine: str = "fast") -> None:
    """Checked (no race, no deadlock, every address in range), then run."""
    engine_named(engine)(program, state, check_program(program, state).order)


def exact(choice: Choice, operation: Operation, engine: str = "fast") -> bool:
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
def endings(draw: st.DrawFn) -> Requantise:
    """Shifts on both sides of what one instruction moves by; limits that clip and that do not; leaky slopes of one digit and of many."""
    low, high = draw(st.sampled_from([(0, 127), (-128, 127), (-100, 6)]))
    slope, slope_shift = draw(st.sampled_from([(0, 0), (0, 0), (26, 8), (13, 7), (1, 1), (1, 3), (127, 7), (205, 11)]))
    return Requantise(draw(SHIFTS), low, high, slope, slope_shift)


@st.composite
def windows(draw: st.DrawFn, most: int = 4) -> tuple[Window, tuple[int, int]]:
    """A window with pads smaller than its reach, and a picture that it fits into."""
    kernel, dilations = draw(st.tuples(st.integers(1, most), st.integers(1, most))), draw(st.tuples(st.integers(1, 2), st.integers(1, 2)))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = draw(st.tuples(*(st.integers(0, reach[k % 2] - 1) for k in range(4))))
    least = [max(reach[k] - pads[k] - pads[k + 2], 1) for k in (0, 1)]
    height, width = (draw(st.integers(n, max(n, 11))) for n in least)
    return Window(kernel, draw(st.tuples(SMALL, SMALL)), pads, dilations), (height, width)


def _shape(draw: st.DrawFn, size: tuple[int, int]) -> tuple[int, int, int, int]:
    return draw(st.integers(1, 2)), draw(CHANNELS), *size


@st.composite
def leaky_convolutions(draw: st.DrawFn) -> Conv2d:
    """Sums far beyond what is stored, and sums that are not shifted at all."""
    window, size = draw(windows(3).filter(lambda found: found[0].kernel != found[1]))
    shape, end = _shape(draw, size), draw(endings())
    rng, most = np.random.default_rng(draw(st.integers(0, 99))), draw(st.sampled_from([2, 127]))
    outputs, bias = draw(CHANNELS), draw(st.sampled_from([63, 5000, 1 << 29]))
    weight = rng.integers(-most, most + 1, (outputs, shape[1], *window.kernel), np.int8)
    bias = rng.integers(-bias, bias + 1, outputs).astype(np.int32)
    return Conv2d(
        "conv", shape, weight, bias, window.strides, window.pads, window.dilations, end.shift, end.low, end.high, end.slope, end.slope_shift
    )


@st.composite
def dense_layers(draw: st.DrawFn) -> Conv2d:
    """Kernels as large as the picture, one picture and many."""
    size, end = draw(st.tuples(st.integers(1, 5), st.integers(1, 5))), draw(endings())
    shape = draw(st.integers(1, 9)), draw(CHANNELS), *size
    rng, bias = np.random.default_rng(draw(st.integers(0, 99))), draw(st.sampled_from([63, 5000, 1 << 29]))
    outputs = draw(st.sampled_from([1, 10, 70]))
    weight = rng.integers(-128, 128, (outputs, shape[1], *size), np.int8)
    bias = rng.integers(-bias, bias + 1, outputs).astype(np.int32)
    return Conv2d("dense", shape, weight, bias, (1, 1), (0, 0, 0, 0), (1, 1), end.shift, end.low, end.high, end.slope, end.slope_shift)


@st.composite
def first_layers(draw: st.DrawFn) -> Conv2d:
    """Even strides over few channels: what can be stored two by two pixels side by side."""
    kernel = draw(st.tuples(st.integers(2, 7), st.integers(2, 7)))
    pads = draw(st.tuples(*(st.integers(0, kernel[k % 2] - 1) for k in range(4))))
    height, width = (draw(st.integers(max(kernel[k] - pads[k] - pads[k + 2], 1), 13)) for k in (0, 1))
    shape, end = (draw(st.integers(1, 2)), draw(st.integers(1, 4)), height, width), draw(endings())
    rng, outputs = np.random.default_rng(draw(st.integers(0, 99))), draw(CHANNELS)
    weight = rng.integers(-128, 128, (outputs, shape[1], *kernel), np.int8)
    bias, strides = rng.integers(-5000, 5001, outputs).astype(np.int32), draw(st.tuples(st.sampled_from([2, 4]), st.sampled_from([2, 4])))
    return Conv2d("first", shape, weight, bias, strides, pads, (1, 1), end.shift, end.low, end.high, end.slope, end.slope_shift)


@st.composite
def depthwises(draw: st.DrawFn) -> Depthwise:
    window, size = draw(windows())
    shape = _shape(draw, size)
    rng, bias = np.random.default_rng(draw(st.integers(0, 99))), draw(st.sampled_from([0, 63, 5000, 1 << 29]))
    weight = rng.integers(-128, 128, (shape[1], *window.kernel), np.int8)
    return Depthwise("depthwise", shape, weight, rng.integers(-bias, bias + 1, shape[1]).astype(np.int32), window, draw(endings()))


@st.composite
def average_pools(draw: st.DrawFn) -> AveragePool:
    window, size = draw(windows().filter(lambda found: found[0].kernel != found[1]))
    return AveragePool("average", _shape(draw, size), window, draw(st.sampled_from([1, 7, 21, 64, 127, -3])), draw(endings()))


@st.composite
def global_pools(draw: st.DrawFn) -> AveragePool:
    size = draw(st.tuples(st.integers(1, 11), st.integers(1, 11)))
    return AveragePool("global", _shape(draw, size), Window(size), draw(st.sampled_from([1, 7, 21, 64, 127, -3])), draw(endings()))


@st.composite
def max_pools(draw: st.DrawFn) -> MaxPool:
    window, size = draw(windows(7))
    return MaxPool("max", _shape(draw, size), window)


@st.composite
def additions(draw: st.DrawFn) -> Add:
    size = draw(st.tuples(st.integers(1, 9), st.integers(1, 9)))
    factor = st.sampled_from([1, 2, 33, 64, -1])
    return Add("add", _shape(draw, size), draw(factor), draw(factor), draw(endings()))


@st.composite
def upsamples(draw: st.DrawFn) -> Upsample:
    size = draw(st.tuples(st.integers(1, 9), st.integers(1, 9)))
    return Upsample("upsample", _shape(draw, size), draw(st.tuples(SMALL, SMALL)))
