"""The sum of two tensors of one shape, each by a factor."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from toolchain.schedule.operations import requantise
from toolchain.schedule.operations.operation import OperationKind
from toolchain.schedule.operations.requantise import Requantise
from toolchain.spec.errors import fail

SHAPE = ("batch", "channels", "height", "width")
KIND = OperationKind((*SHAPE, "multiply_x", "multiply_z", *requantise.NUMBERS), ())
ACCUMULATOR = 1 << 31


@dataclass(frozen=True)
class Add:
    """y = requantise(x * multiply_x + z * multiply_z). input: (batch, channels, height, width) of all three."""

    name: str
    input: tuple[int, int, int, int]
    multiply_x: int = 1
    multiply_z: int = 1
    requantise: Requantise = field(default=Requantise())

    def __post_init__(self) -> None:
        """Raises UserError E1003 where a sum may leave 32 bits."""
        reach = (abs(self.multiply_x) + abs(self.multiply_z)) * 128 + self.requantise.half
        if reach >= ACCUMULATOR:
            raise fail("E1003", f"a sum of '{self.name}' may reach {reach}, which 32 bits do not hold")

    @property
    def kind(self) -> str:
        return "add"

    @property
    def output(self) -> tuple[int, int, int, int]:
        return self.input

    @property
    def macs(self) -> int:
        return 0

    @property
    def numbers(self) -> Mapping[str, int]:
        """The values of KIND.numbers."""
        shape = dict(zip(SHAPE, self.input, strict=True))
        return shape | {"multiply_x": self.multiply_x, "multiply_z": self.multiply_z} | self.requantise.numbers

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return {}
