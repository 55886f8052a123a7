"""Whether a network's results depend on zeros behind a sample that fill it up to a greater length: measured on the model's own file."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from toolchain.graph.calibration.table import Samples, sample_at, sample_count
from toolchain.graph.lengths import LengthAxis, sized, text_of
from toolchain.graph.session import open_session, run_session
from toolchain.spec.arrays import Array

SAMPLES = 4
"""Samples that are looked at."""
LIMIT = 1e-4
"""Share of a result's largest value, far above float32's rounding of a sum of thousands (assumed)."""
Sizes = Mapping[str, int]


def padding_refusal(file: Path, axes: Sequence[LengthAxis], outputs: Sequence[LengthAxis], lengths: Sequence[Sizes], samples: Samples) -> str:
    """Why samples cannot be filled up with zeros, in words; empty where results stay the same.

    file: the model as the user gave it. axes, outputs: of its inputs and outputs, whose sizes are lengths. lengths: the smallest first. samples: of
    the greatest length. Samples of the smallest length, and of one less than the greatest, are held against the same filled up to the greatest.
    Raises UserError E0910 where ONNX Runtime does not run the file.
    """
    largest = lengths[-1]
    probes = [dict(lengths[0]), {name: max(size - 1, 1) for name, size in largest.items()}]
    session = open_session(file)
    for sizes in probes:
        for number in range(min(sample_count(samples), SAMPLES)):
            short = sized(sample_at(samples, number), axes, sizes)
            own, filled = (run_session(session, given, place=str(file)) for given in (short, sized(short, axes, largest)))
            for name, array in sized(filled, outputs, sizes).items():
                if told := _difference(name, own[name], array):
                    return f"{told} where a sample of {text_of(sizes)} is filled up with zeros to {text_of(largest)}"
    return ""


def _difference(name: str, own: Array, filled: Array) -> str:
    """In words; empty where there is none."""
    if own.shape != filled.shape:
        return f"the output '{name}' has the shape {list(filled.shape)} in place of {list(own.shape)}"
    if own.dtype.kind != "f":
        return "" if np.array_equal(own, filled) else f"the output '{name}' changes"
    apart, most = float(np.abs(own - filled).max(initial=0)), float(np.abs(own).max(initial=0))
    return "" if apart <= LIMIT * most else f"the output '{name}' changes by {100 * apart / max(most, 1e-30):.2g} % of its largest value"
