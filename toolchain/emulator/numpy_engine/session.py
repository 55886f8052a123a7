"""One program on one state: what compiled instructions are bound to while they run."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolchain.analysis.state import State
from toolchain.emulator.numpy_engine.versions import Contents, Versions
from toolchain.isa.program import Program


class Layout:
    """How the bytes of a memory are seen as an array: items of `dtype`, one every `step` bytes, `row` of them side by side (0: no rows).

    Compared by identity, so that looking an array up costs little.
    """

    def __init__(self, memory: str, dtype: np.dtype[Any], step: int, row: int = 0) -> None:
        self.memory, self.dtype, self.step, self.row = memory, dtype, step, row

    def array(self, flat: NDArray[np.uint8]) -> NDArray[Any]:
        """The bytes of all instances in this layout, not copied."""
        if self.row:
            return flat.view(self.dtype).reshape(-1, self.row)
        count = (flat.size - self.dtype.itemsize) // self.step + 1
        return np.ndarray((count,), self.dtype, flat.data, 0, (self.step,))


class Arrays(dict[Layout, NDArray[Any]]):
    """The memories of one state in every layout that is asked for. flat: each memory as one run of bytes."""

    def __init__(self, state: State) -> None:
        super().__init__()
        self.flat = {name: array.reshape(-1) for name, array in state.memories.items()}

    def __missing__(self, layout: Layout) -> NDArray[Any]:
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
