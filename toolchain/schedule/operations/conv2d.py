"""A fused integer convolution as the machine side sees it: shapes, constants, and the numbers that kernels name."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolchain.schedule.operations.operation import OperationKind
from toolchain.spec.errors import fail

KIND = OperationKind(
    (
        "batch", "in_channels", "height", "width", "out_channels", "out_height", "out_width", "kh", "kw", "sh", "sw", "dh", "dw",
        "pad_top", "pad_left", "pad_bottom", "pad_right", "shift", "half", "low", "high", "slope", "slope_shift", "bias_least", "bias_most",
    ),
    ("weight", "bias"),
)  # fmt: skip
ACCUMULATOR = 1 << 31


@dataclass(frozen=True, eq=False)
class Conv2d:
    """y = clip(round(activation((sum(x * weight) + bias) / 2**shift)), low, high); half, of 1 << shift, makes the shift round half up.

    slope / 2**slope_shift: what a leaky activation multiplies negative values by, 0 for none; before or after rounding, as the machine does.

    input: (batch, channels, height, width). weight: int8 [out, in, kh, kw]. bias: int32 [out]. pads: top, left, bottom, right.
    """

    name: str
    input: tuple[int, int, int, int]
    weight: NDArray[np.int8]
    bias: NDArray[np.int32]
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilations: tuple[int, int] = (1, 1)
    shift: int = 0
    low: int = -128
    high: int = 127
    slope: int = 0
    slope_shift: int = 0

    @property
    def kind(self) -> str:
        return "conv2d"

    def __post_init__(self) -> None:
        """Raises UserError E1003 where shapes do not fit each other, where nothing is left, or where a sum may leave 32 bits."""
        if self.weight.ndim != 4 or self.weight.shape[1] != self.input[1] or self.bias.shape != self.weight.shape[:1]:
            shapes = f"input {self.input}, weights {self.weight.shape}, bias {self.bias.shape}"
            raise fail("E1003", f"the shapes of '{self.name}' do not fit each other: {shapes}")
        if min(self.output) < 1 or min(*self.strides, *self.dilations) < 1 or min(*self.pads, self.shift) < 0:
            raise fail("E1003", f"'{self.name}' has no output: {self.output}")
        if self.reach >= ACCUMULATOR:
            raise fail("E1003", f"a sum of '{self.name}' may reach {self.reach}, which 32 bits do not hold")

    @property
    def output(self) -> tuple[int, int, int, int]:
        """(batch, channels, height, width) of the result."""
        spans = [
            (self.input[2 + k] + self.pads[k] + self.pads[2 + k] - (self.weight.shape[2 + k] - 1) * self.dilations[k] - 1) // self.strides[k] + 1
            for k in (0, 1)
        ]
        return self.input[0], self.weight.shape[0], spans[0], spans[1]

    @property
    def half(self) -> int:
        return (1 << self.shift) >> 1

    @cached_property
    def reach(self) -> int:
        """The largest magnitude that any partial sum can have, the rounding half included."""
        weights = np.abs(self.weight.astype(np.int16)).sum(axis=(1, 2, 3), dtype=np.int64) * 128
        return int((weights + np.abs(self.bias.astype(np.int64))).max()) + self.half

    @property
    def macs(self) -> int:
        """Multiply-accumulates, those with padding included."""
        return int(np.prod(self.output)) * int(np.prod(self.weight.shape[1:]))

    @property
    def numbers(self) -> Mapping[str, int]:
        """The values of KIND.numbers."""
        return self._numbers

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        values = (
            *self.input, *self.output[1:], *self.weight.shape[2:], *self.strides, *self.dilations, *self.pads,
            self.shift, self.half, self.low, self.high, self.slope, self.slope_shift, int(self.bias.min()), int(self.bias.max()),
        )  # fmt: skip
        return dict(zip(KIND.numbers, map(int, values), strict=True))

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """The values of KIND.arrays."""
        return {"weight": self.weight, "bias": self.bias}
