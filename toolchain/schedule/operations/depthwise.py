"""A convolution with one filter for each channel; with a 1x1 kernel, a scale and an offset for each channel."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolchain.schedule.operations import requantise, window
from toolchain.schedule.operations.operation import OperationKind
from toolchain.schedule.operations.requantise import Requantise
from toolchain.schedule.operations.window import Window
from toolchain.spec.errors import fail

SHAPE = ("batch", "channels", "height", "width", "out_height", "out_width")
KIND = OperationKind((*SHAPE, *window.NUMBERS, "bias_least", "bias_most", *requantise.NUMBERS), ("weight", "bias"))
ACCUMULATOR = 1 << 31


@dataclass(frozen=True, eq=False)
class Depthwise:
    """y[c] = requantise(sum(x[c] * weight[c]) + bias[c]). input: (batch, channels, height, width). weight: int8 [channels, kh, kw].

    bias: int32 [channels]. window.kernel must be the weights' own.
    """

    name: str
    input: tuple[int, int, int, int]
    weight: NDArray[np.int8]
    bias: NDArray[np.int32]
    window: Window
    requantise: Requantise

    @property
    def kind(self) -> str:
        return "depthwise"

    def __post_init__(self) -> None:
        """Raises UserError E1003 where shapes do not fit each other, or where a sum may leave 32 bits."""
        if self.weight.shape != (self.input[1], *self.window.kernel) or self.bias.shape != self.weight.shape[:1]:
            shapes = f"input {self.input}, weights {self.weight.shape}, bias {self.bias.shape}"
            raise fail("E1003", f"the shapes of '{self.name}' do not fit each other: {shapes}")
        if self.reach >= ACCUMULATOR:
            raise fail("E1003", f"a sum of '{self.name}' may reach {self.reach}, which 32 bits do not hold")

    @property
    def output(self) -> tuple[int, int, int, int]:
        """(batch, channels, height, width) of the result. Raises UserError E1003 where nothing is left."""
        return *self.input[:2], *self.window.output(self.input[2:], self.name)

    @cached_property
    def reach(self) -> int:
        """The largest magnitude that any partial sum can have, the rounding half included."""
        weights = np.abs(self.weight.astype(np.int16)).sum(axis=(1, 2), dtype=np.int64) * 128
        return int((weights + np.abs(self.bias.astype(np.int64))).max()) + self.requantise.half

    @property
    def macs(self) -> int:
        """Multiply-accumulates, those with padding included."""
        return int(np.prod(self.output)) * self.window.kernel[0] * self.window.kernel[1]

    @property
    def numbers(self) -> Mapping[str, int]:
        """The values of KIND.numbers."""
        return self._numbers

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        shape = dict(zip(SHAPE, (*self.input, *self.output[2:]), strict=True))
        bias = {"bias_least": int(self.bias.min()), "bias_most": int(self.bias.max())}
        return shape | self.window.numbers | bias | self.requantise.numbers

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """The values of KIND.arrays."""
        return {"weight": self.weight, "bias": self.bias}
