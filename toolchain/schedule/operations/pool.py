"""Pools as the machine side sees them: the largest of a window, or its sum by a fraction."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from toolchain.schedule.operations import requantise, window
from toolchain.schedule.operations.operation import OperationKind
from toolchain.schedule.operations.requantise import Requantise
from toolchain.schedule.operations.window import Window
from toolchain.spec.errors import fail

SHAPE = ("batch", "channels", "height", "width", "out_height", "out_width")
MAX_KIND = OperationKind((*SHAPE, *window.NUMBERS), ())
AVERAGE_KIND = OperationKind((*SHAPE, *window.NUMBERS, "multiply", *requantise.NUMBERS), ())
ACCUMULATOR = 1 << 31


@dataclass(frozen=True)
class MaxPool:
    """The largest stored value of each window; what is padded counts for nothing. input: (batch, channels, height, width)."""

    name: str
    input: tuple[int, int, int, int]
    window: Window

    @property
    def kind(self) -> str:
        return "max_pool"

    @property
    def output(self) -> tuple[int, int, int, int]:
        """(batch, channels, height, width) of the result. Raises UserError E1003 where nothing is left."""
        return *self.input[:2], *self.window.output(self.input[2:], self.name)

    @property
    def macs(self) -> int:
        return 0

    @property
    def numbers(self) -> Mapping[str, int]:
        """The values of MAX_KIND.numbers."""
        return dict(zip(SHAPE, (*self.input, *self.output[2:]), strict=True)) | self.window.numbers

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return {}


@dataclass(frozen=True)
class AveragePool:
    """y = requantise(sum of each window * multiply); what is padded is zero, and counts. A 1x1 window only requantises."""

    name: str
    input: tuple[int, int, int, int]
    window: Window
    multiply: int = 1
    requantise: Requantise = field(default=Requantise())

    def __post_init__(self) -> None:
        """Raises UserError E1003 where a sum may leave 32 bits."""
        reach = self.window.kernel[0] * self.window.kernel[1] * abs(self.multiply) * 128 + self.requantise.half
        if reach >= ACCUMULATOR:
            raise fail("E1003", f"a sum of '{self.name}' may reach {reach}, which 32 bits do not hold")

    @property
    def kind(self) -> str:
        return "average_pool"

    @property
    def output(self) -> tuple[int, int, int, int]:
        """(batch, channels, height, width) of the result. Raises UserError E1003 where nothing is left."""
        return *self.input[:2], *self.window.output(self.input[2:], self.name)

    @property
    def macs(self) -> int:
        return 0

    @property
    def numbers(self) -> Mapping[str, int]:
        """The values of AVERAGE_KIND.numbers."""
        shape = dict(zip(SHAPE, (*self.input, *self.output[2:]), strict=True))
        return shape | self.window.numbers | {"multiply": self.multiply} | self.requantise.numbers

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return {}
