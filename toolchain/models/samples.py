"""Inputs that belong to a model: to calibrate it, and to test it."""

import io
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from toolchain.models.images import Samples, seeded_samples
from toolchain.models.model import Model, Recorded
from toolchain.models.operators import Shape
from toolchain.spec.errors import Span, fail
from toolchain.spec.files import read_limited
from toolchain.spec.suggest import nearest

Labels = np.typing.NDArray[np.int64]
MAX_BYTES = 1 << 30
_DAMAGED = (ValueError, TypeError, AttributeError, EOFError, KeyError, NotImplementedError, RuntimeError, OSError, zipfile.BadZipFile, zlib.error)
"""What numpy and zipfile raise for damaged archives, one byte changed at a time."""


def calibration_samples(model: Model) -> Mapping[str, Samples]:
    """By input name: [count, *shape without its batch] float32. Raises UserError E0808."""
    match model.calibration:
        case Recorded() as recorded:
            ((name, shape),) = model.inputs.items()
            return {name: recorded_samples(recorded, shape)}
        case seeded:
            return {name: seeded_samples(name, shape, seeded.count, "calibration") for name, shape in model.inputs.items()}


def labelled_samples(model: Model) -> tuple[Samples, Labels] | None:
    """Samples [count, *shape without its batch] of the one input and their classes [count]; None without test data. Raises UserError E0808."""
    if model.test is None:
        return None
    recorded = model.test.samples
    samples = recorded_samples(recorded, next(iter(model.inputs.values())))
    labels = _array(recorded.file, model.test.labels, recorded.span)
    if labels.shape != samples.shape[:1] or labels.dtype.kind not in "iu":
        raise fail("E0808", f"'{model.test.labels}' is not one whole number for each of {len(samples)} samples", recorded.span)
    return samples, labels.astype(np.int64)


def recorded_samples(recorded: Recorded, shape: Shape) -> Samples:
    """The stored samples as the model takes them. Raises UserError E0808 for a wrong shape, or numbers that are not finite."""
    stored = _array(recorded.file, recorded.array, recorded.span)
    if stored.shape[1:] != tuple(shape[1:]) or not len(stored) or stored.dtype.kind not in "iuf":
        raise fail("E0808", f"'{recorded.array}' is {stored.dtype}{list(stored.shape)}, not numbers of shape {['n', *shape[1:]]}", recorded.span)
    samples = stored.astype(np.float32) * np.float32(recorded.scale)
    if not np.isfinite(samples).all():
        raise fail("E0808", f"'{recorded.array}' holds numbers that are not finite", recorded.span)
    return samples


def _array(path: Path, name: str, span: Span) -> Any:
    data = read_limited(path, MAX_BYTES, "the sample file")
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            if name not in archive.files:
                raise fail(
                    "E0808", f"there is no array '{name}' in {path}", span, nearest(name, archive.files) or f"known: {', '.join(archive.files)}"
                )
            return archive[name]
    except _DAMAGED:
        raise fail("E0808", f"{path} is not an .npz file of plain arrays", span) from None
