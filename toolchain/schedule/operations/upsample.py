"""Nearest-neighbour enlargement by whole factors: every element factor_h times factor_w times."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from toolchain.schedule.operations.operation import OperationKind

KIND = OperationKind(("batch", "channels", "height", "width", "out_height", "out_width", "factor_h", "factor_w"), ())


@dataclass(frozen=True)
class Upsample:
    """y[n, c, h, w] = x[n, c, h // factor_h, w // factor_w]. input: (batch, channels, height, width)."""

    name: str
    input: tuple[int, int, int, int]
    factors: tuple[int, int]

    @property
    def kind(self) -> str:
        return "upsample"

    @property
    def output(self) -> tuple[int, int, int, int]:
        """(batch, channels, height, width) of the result."""
        return *self.input[:2], self.input[2] * self.factors[0], self.input[3] * self.factors[1]

    @property
    def macs(self) -> int:
        return 0

    @property
    def numbers(self) -> Mapping[str, int]:
        """The values of KIND.numbers."""
        return dict(zip(KIND.numbers, (*self.input, *self.output[2:], *self.factors), strict=True))

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return {}
