"""The share of the float network's work that integers lose: of its task where the model's file names one, else of the outputs' energy."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from toolchain.accuracy.errors import Ends, Energy
from toolchain.accuracy.measure import measure_task
from toolchain.models.task import Embedding, Task

Array = np.typing.NDArray[Any]
Results = Sequence[Mapping[str, Array]]


def output_noise(wanted: Results, found: Results) -> float:
    """The energy of the error over that of the output, of the output and the part of it where it is largest; 1 at most. Whole numbers do not count.

    A part that is always zero is as right as the whole.
    """
    ends: dict[str, Ends] = {}
    for one, other in zip(wanted, found, strict=True):
        for name, array in one.items():
            if array.dtype.kind == "f":
                ends.setdefault(name, Ends()).add(array, other[name])
    return max((_share(energy) for end in ends.values() for energy in (end.whole, *end.parts.values())), default=0.0)


def _share(energy: Energy) -> float:
    return min(energy.noise / energy.signal, 1.0) if energy.signal > 0 else 0.0


def task_loss(task: Task | None, inputs: Results, wanted: Results, found: Results) -> float:
    """The least of both: an output may be noisy and its task done well, and the other way where a task of few samples counts in large steps.

    Of embeddings the energy of vectors of unit length, which is twice what their cosine lacks.
    """
    if isinstance(task, Embedding):
        return 2 * (1 - measure_task(task, wanted, found, inputs).share)
    noise = output_noise(wanted, found)
    return noise if task is None else min(noise, 1 - measure_task(task, wanted, found, inputs).share)
