"""The accuracy that a build states of its integers, as the stage of this name leaves it in a file."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from toolchain.accuracy.closeness import Closeness
from toolchain.accuracy.measure import GOOD, Measured
from toolchain.spec.typed_json import from_json

FEW = 10
"""Fewer samples than this do not show what ranges others have: 12 to 41 dB were lost on new ones where four had calibrated a network."""
SATURATED = 0.02
"""Share of a tensor's values outside of what can be stored from which a summary names it."""
KINDS = ("test", "held-out", "calibration")


@dataclass(frozen=True)
class Stated:
    """samples: how many were run; 0 where nothing was measured, as there are no samples but made-up ones. kind: the model's test samples; those that
    calibrate it and were not fitted to; or any that calibrate it, for want of others. calibrating: how many calibrate it.

    right: share of right answers of the float network and of the integers, None without labels. task: None where the model's file names none.
    saturated: the tensor with most values outside of what can be stored, empty where none has many; clipped: their share.
    """

    samples: int
    kind: str = ""
    calibrating: int = 0
    right: tuple[float, float] | None = None
    task: Measured | None = None
    closeness: Closeness | None = None
    saturated: str = ""
    clipped: float = 0.0

    def text(self) -> str:
        """One line for a summary; empty where nothing was measured."""
        if not self.samples:
            return ""
        parts = [f"{100 * self.right[1]:.2f} % right, in floating point {100 * self.right[0]:.2f} %"] if self.right else []
        parts += [self.task.text] if self.task and not self.right else []
        parts += [self.closeness.outputs_text()] if self.closeness and self.closeness.outputs else []
        of = {"test": "test samples", "held-out": "samples held out", "calibration": "samples that calibrate it"}[self.kind]
        return f"{'; '.join(parts) or 'as in floating point'}; on {self.samples} {of}"

    def warnings(self) -> Iterator[str]:
        """Remarks that a user should know before trusting the integers."""
        if not self.samples:
            return
        if self.calibrating < FEW:
            yield f"{self.calibrating} samples calibrate it, which are few: values of others may lie outside the ranges"
        if self.closeness:
            yield from self.closeness.warnings(self.task is not None and self.task.share >= GOOD)
        if self.saturated:
            yield f"{100 * self.clipped:.1f} % of the values of {self.saturated} are cut off on these samples: the range of others was smaller"


def stated_text(found: Stated) -> str:
    """JSON, names in the order of the class."""
    return json.dumps(asdict(found), indent=1) + "\n"


def read_stated(text: str) -> Stated:
    """Raises ValueError for a text that `stated_text` did not write."""
    return from_json(Stated, json.loads(text))
