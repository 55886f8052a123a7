"""One program on one state, to which compiled instructions are bound while they run.

Contents of registers and control memories have numbers: equal numbers, equal contents. Results of an address phase are
remembered by these numbers, so they are found again when a program comes back to the same micro-ops or the same latched
fields, in this run or in the next.
"""

import itertools

import numpy as np
from numpy.typing import NDArray

from toolchain.analysis.state import State
from toolchain.isa.program import Program
from toolchain.spec.arrays import Array

LARGEST = 1 << 16
"""Bytes of a memory whose contents are compared; the contents of a larger one are new whenever it was written."""

KNOWN = 256
"""Contents of one memory that are told apart at once."""


class Contents:
    """The contents that a machine's registers and control memories were seen to hold."""

    def __init__(self) -> None:
        self._known: dict[str, dict[tuple[bytes, ...], int]] = {}
        self._numbers = itertools.count()

    def new(self) -> int:
        """A number that no contents have yet."""
        return next(self._numbers)

    def number(self, name: str, parts: tuple[bytes, ...]) -> int:
        """The number of a memory's contents. Numbers that are forgotten are not given again."""
        known = self._known.setdefault(name, {})
        found = known.get(parts)
        if found is None:
            if len(known) >= KNOWN:
                known.clear()
            found = known[parts] = self.new()
        return found


class Versions:
    """The numbers of one state's contents, found when they are asked for."""

    def __init__(self, state: State, contents: Contents) -> None:
        self._state, self._contents = state, contents
        self._current: dict[str, int] = {}

    def number(self, name: str) -> int:
        """The number of the memory's present contents."""
        found = self._current.get(name)
        if found is None:
            found = self._current[name] = self._find(name)
        return found

    def changed(self, name: str) -> None:
        """The memory was written."""
        self._current.pop(name, None)

    def all_changed(self) -> None:
        """Any memory may have been written."""
        self._current.clear()

    def _find(self, name: str) -> int:
        state = self._state
        arrays = [held[name] for held in (state.memories, state.host, state.latched, state.written) if name in held]
        if sum(array.nbytes for array in arrays) > LARGEST:
            return self._contents.new()
        return self._contents.number(name, tuple(array.tobytes() for array in arrays))


class Layout:
    """How the bytes of a memory are seen as an array: items of `dtype`, one every `step` bytes, `row` of them side by side (0: no rows).

    Compared by identity, so that looking an array up costs little.
    """

    def __init__(self, memory: str, dtype: np.dtype[np.generic], step: int, row: int = 0) -> None:
        self.memory, self.dtype, self.step, self.row = memory, dtype, step, row

    def array(self, flat: NDArray[np.uint8]) -> Array:
        """The bytes of all instances in this layout, not copied."""
        if self.row:
            return flat.view(self.dtype).reshape(-1, self.row)
        count = (flat.size - self.dtype.itemsize) // self.step + 1
        return np.ndarray((count,), self.dtype, flat.data, 0, (self.step,))


class Arrays(dict[Layout, Array]):
    """The memories of one state in every layout that is asked for. flat: each memory as one run of bytes."""

    def __init__(self, state: State) -> None:
        super().__init__()
        self.flat = {name: array.reshape(-1) for name, array in state.memories.items()}

    def __missing__(self, layout: Layout) -> Array:
        found = self[layout] = layout.array(self.flat[layout.memory])
        return found


class Session:
    """index: the instruction that executes."""

    def __init__(self, program: Program, state: State, contents: Contents) -> None:
        self.program, self.state = program, state
        self.arrays, self.versions = Arrays(state), Versions(state, contents)
        self.index = 0

    def label(self) -> str:
        """How messages name the executing instruction."""
        return self.program.label(self.index)

    def close(self) -> None:
        """Lets go of everything: steps that are kept for the next run must not keep this one's memories."""
        vars(self).clear()
