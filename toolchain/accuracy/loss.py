"""The share of the float network's work that integers lose: of its task where the model's file names one, else of the outputs' energy."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from toolchain.accuracy.energy import Energy
from toolchain.accuracy.measure import measure_task
from toolchain.models.task import Embedding, Task

Array = np.typing.NDArray[Any]
Results = Sequence[Mapping[str, Array]]


def output_noise(wanted: Results, found: Results) -> float:
    """The energy of the error over that of the output, of the output where it is largest; 1 at most. Whole numbers do not count."""
    energies: dict[str, Energy] = {}
    for one, other in zip(wanted, found, strict=True):
        for name, array in one.items():
            if array.dtype.kind == "f" and array.shape == other[name].shape:
                energies.setdefault(name, Energy()).add(array, other[name])
    return max((_share(energy) for energy in energies.values()), default=0.0)


def _share(energy: Energy) -> float:
    return 0.0 if energy.noise == 0 else min(energy.noise / energy.signal, 1.0) if energy.signal > 0 else 1.0


def task_loss(task: Task | None, inputs: Results, wanted: Results, found: Results) -> float:
    """The least of both: an output may be noisy and its task done well, and the other way where a task of few samples counts in large steps.

    Of embeddings the energy of vectors of unit length, which is twice what their cosine lacks.
    """
    if isinstance(task, Embedding):
        return 2 * (1 - measure_task(task, wanted, found, inputs).share)
    noise = output_noise(wanted, found)
    return noise if task is None else min(noise, 1 - measure_task(task, wanted, found, inputs).share)
