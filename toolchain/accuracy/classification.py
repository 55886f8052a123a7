"""Classes: how often the first answer is the right one, and how often two networks give the same."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from toolchain.models.task import Classification

Array = np.typing.NDArray[Any]


def answers(outputs: Mapping[str, Array], task: Classification) -> Array:
    """The best class, for every place that has its own scores."""
    scores = outputs[task.output or next(iter(outputs))]
    return scores.argmax(task.axis) if scores.ndim else np.zeros(1, np.int64)


def agreement(wanted: Mapping[str, Array], found: Mapping[str, Array], task: Classification) -> tuple[float, float]:
    """Answers that are the same, and answers in all, of one sample."""
    one, other = answers(wanted, task), answers(found, task)
    return float((one == other).sum()), float(one.size)
