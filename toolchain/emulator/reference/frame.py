"""The values that a reference engine's expression is evaluated on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from toolchain.analysis.state import Element, State
from toolchain.spec.errors import UserError, fail


@dataclass(slots=True)
class Frame:
    """The values of one replica while it executes one instruction.

    seen: lanes of the elements that the current statement has read, by access number. lanes: the current value of
    every lane name. temps: lanes of each temporary, row-major. reads, writes: told of every element of data that is read or written.
    iterations: how many its loops have asked for. chosen: granules (memory, instance, number) that a partial execution is for.
    """

    state: State
    label: str
    fields: Mapping[str, int]
    place: Mapping[str, int]
    extents: Mapping[str, int]
    reads: Callable[[Element], None]
    writes: Callable[[Element], None]
    names: dict[str, int] = field(default_factory=dict[str, int])
    lanes: dict[str, int] = field(default_factory=dict[str, int])
    temps: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    seen: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    iterations: int = 0
    chosen: frozenset[tuple[str, int, int]] = frozenset()

    def fault(self, code: str, message: str) -> UserError:
        """An error of the executing instruction."""
        return fail(code, message, place=self.label)


Value = Callable[[Frame], int]
