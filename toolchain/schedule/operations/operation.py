"""What kernels know of an operation: numbers and arrays by name."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray


@dataclass(frozen=True)
class OperationKind:
    """The names that operations of a kind have values for."""

    numbers: tuple[str, ...]
    arrays: tuple[str, ...]


class Operation(Protocol):
    """A fused operation with its constants in place. numbers, arrays: a value for every name of its kind."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def output(self) -> tuple[int, int, int, int]:
        """(batch, channels, height, width) of the result."""
        ...

    @property
    def macs(self) -> int: ...

    @property
    def numbers(self) -> Mapping[str, int]: ...

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]: ...
