"""Text read by connectionist temporal classification (Graves et al., 2006): greedy decoding, and the distance of two readings."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from toolchain.models.task import Text

Array = np.typing.NDArray[Any]
Reading = tuple[int, ...]


def readings(outputs: Mapping[str, Array], task: Text) -> list[Reading]:
    """The classes read in each sequence of an output of scores, or of classes [..., steps] where it holds whole numbers."""
    scores = outputs[task.output or next(iter(outputs))]
    best = scores if scores.dtype.kind in "iu" else np.moveaxis(scores, (task.steps, task.axis), (-2, -1)).argmax(-1)
    return [_collapsed(steps, task.blank) for steps in best.reshape(-1, best.shape[-1]).tolist()]


def _collapsed(steps: Sequence[int], blank: int) -> Reading:
    """Repeats are one character, blanks none."""
    changed = [step for number, step in enumerate(steps) if number == 0 or step != steps[number - 1]]
    return tuple(step for step in changed if step != blank)


def edit_distance(one: Reading, other: Reading) -> int:
    """Characters to insert, delete or replace (Levenshtein, 1966)."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return row[-1]
