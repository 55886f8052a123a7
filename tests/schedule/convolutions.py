"""Convolutions of the tests and what they must give, computed tap by tap in Python integers' own width."""

from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.operations import made
from toolchain.operations.operation import Operation


def direct(operation: Operation, x: NDArray[np.int8]) -> NDArray[np.int64]:
    """The operation by its definition, output element by output element; rounding by division instead of a shift."""
    (top, left, _, _), (sh, sw), (dh, dw) = made.pads(operation), made.strides(operation), made.dilations(operation)
    batch, channels, height, width = operation.output
    kh, kw = operation.arrays["weight"].shape[2:]
    result = np.zeros(operation.output, np.int64)
    for n, oy, ox in np.ndindex(batch, height, width):
        sums = operation.arrays["bias"].astype(np.int64).copy()
        for u, v in np.ndindex(kh, kw):
            y, z = oy * sh + u * dh - top, ox * sw + v * dw - left
            if 0 <= y < operation.input("x")[2] and 0 <= z < operation.input("x")[3]:
                sums += operation.arrays["weight"][:, :, u, v].astype(np.int64) @ x[n, :, y, z].astype(np.int64)
        result[n, :, oy, ox] = np.floor_divide(2 * sums + (1 << operation.numbers["shift"]), 2 << operation.numbers["shift"])
    assert channels == len(operation.arrays["bias"])
    return np.clip(result, operation.numbers["low"], operation.numbers["high"])


def convolution(shape: tuple[int, int, int, int], weights: tuple[int, int, int], seed: int = 0, bias: int = 5000, **options: Any) -> Operation:
    """Seeded weights. weights: (outputs, kernel height, kernel width). bias: its largest magnitude."""
    rng = np.random.default_rng(seed)
    weight = rng.integers(-128, 128, (weights[0], shape[1], *weights[1:]), np.int8)
    return made.conv2d("conv", shape, weight, rng.integers(-bias, bias + 1, weights[0]).astype(np.int32), **{"shift": 9, **options})


def image(operation: Operation, seed: int = 1) -> NDArray[np.int8]:
    return np.random.default_rng(seed).integers(-128, 128, operation.input("x"), np.int8)


@st.composite
def convolutions(draw: st.DrawFn) -> Operation:
    """Any kernel, stride, dilation and padding smaller than the kernel; channels that are no multiple of any block; every kind of bias."""
    kernel = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    dilations = draw(st.tuples(st.integers(1, 2), st.integers(1, 2)))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = draw(st.tuples(*(st.integers(0, reach[k % 2] - 1) for k in range(4))))
    size = [draw(st.integers(max(reach[k] - pads[k] - pads[k + 2], 1), 11)) for k in (0, 1)]
    low, high = draw(st.sampled_from([(0, 127), (-128, 127), (-127, 6)]))
    strides = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    shape = draw(st.integers(1, 2)), draw(st.sampled_from([1, 3, 16, 17, 40])), *size
    weights = draw(st.sampled_from([1, 16, 20, 37])), *kernel
    seed, bias = draw(st.integers(0, 99)), draw(st.sampled_from([0, 63, 5000, 300_000, 1 << 29]))
    shift = draw(st.sampled_from([0, 1, 9, 15, 16, 24]))
    return convolution(shape, weights, seed, bias, strides=strides, pads=pads, dilations=dilations, shift=shift, low=low, high=high)
