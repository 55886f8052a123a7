"""Inputs that belong to a model: to calibrate it, and to test it."""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from toolchain.models.images import Samples, seeded_samples
from toolchain.models.model import Model, Recorded
from toolchain.models.operators import Shape
from toolchain.spec.errors import Span, fail
from toolchain.spec.suggest import nearest

Labels = np.typing.NDArray[np.int64]


def calibration_samples(model: Model) -> Mapping[str, Samples]:
    """By input name: [count, *shape without its batch] float32. Raises UserError E0808."""
    match model.calibration:
        case Recorded() as recorded:
            ((name, shape),) = model.inputs.items()
            return {name: recorded_samples(recorded, shape)}
        case seeded:
            return {name: seeded_samples(name, shape, seeded.count, "calibration") for name, shape in model.inputs.items()}


def test_samples(model: Model) -> tuple[Samples, Labels] | None:
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
    try:
        with np.load(path, allow_pickle=False) as archive:
            if name not in archive.files:
                raise fail(
                    "E0808", f"there is no array '{name}' in {path}", span, nearest(name, archive.files) or f"known: {', '.join(archive.files)}"
                )
            return archive[name]
    except OSError as error:
        raise fail("E0808", f"cannot read {path}: {error.strerror or error}", span) from None
    except (ValueError, TypeError, AttributeError, zipfile.BadZipFile):
        raise fail("E0808", f"{path} is not an .npz file of plain arrays", span) from None
