"""Notes what an instruction did, step by step, so that it can be done again without its loops and branches."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

MOST_STEPS = 256
"""An instruction of more steps is not kept: it gains little, and takes room."""

Frame = Any
"""frame.Frame, which knows of recorders."""


@dataclass(slots=True)
class Part:
    """Steps whose iterations run together: (what to do, the frame to do it in, whether it writes). Writes wait until the last step."""

    steps: list[tuple[Callable[[Frame], None], Frame, bool]] = field(default_factory=list[tuple[Callable[[Frame], None], Frame, bool]])

    @property
    def at_once(self) -> bool:
        """Whether nothing is read after something was written, so that no write needs to wait."""
        return not any(writes for _, _, writes in self.steps[:-1])


class Recorder:
    """The steps of one execution. full: it did too much to be kept."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.count = 0

    @property
    def full(self) -> bool:
        """Whether it is more than is kept."""
        return self.count > MOST_STEPS

    def begin(self) -> None:
        """Begins a part, whose iterations run together."""
        self.parts.append(Part())

    def undo(self) -> None:
        """Drops the part that began last: it failed before any write."""
        self.count -= len(self.parts.pop().steps)

    def step(self, action: Callable[[Frame], None], frame: Frame, writes: bool) -> None:
        """A step in the part that began last, or a part of its own where iterations do not run together."""
        if frame.transaction is None:
            self.parts.append(Part())
        self.parts[-1].steps.append((action, frame, writes))
        self.count += 1
