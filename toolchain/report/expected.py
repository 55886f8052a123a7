"""Results of a bundle beside those that a file expects: outputs, or the right classes of samples."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from toolchain.accuracy.closeness import output_noise
from toolchain.accuracy.measure import right_share
from toolchain.models.samples import file_arrays
from toolchain.report.tables import counted
from toolchain.spec.arrays import Array
from toolchain.spec.errors import fail, one_line

LABELS = "labels"


def expected_lines(outputs: Mapping[str, Array], path: Path) -> Iterator[str]:
    """A line for each output that the .npz file has an array for, and one for its array `labels` [samples] of classes, which the first output tells
    by its largest value. outputs: [samples, ...].

    Raises UserError E0001, E0808 for a file with none of them, or with arrays of another shape.
    """
    expected, place = file_arrays(path), str(path)
    known = [name for name in outputs if name in expected]
    if not known and LABELS not in expected:
        hint = f"outputs: {', '.join(map(one_line, outputs))}"
        raise fail("E0808", f"the file has neither an array of an output's name nor '{LABELS}'", hint=hint, place=place)
    yield from (_closeness(name, expected[name], outputs[name], place) for name in known)
    if LABELS in expected and LABELS not in outputs:
        yield _right(outputs, expected[LABELS], place)


def _closeness(name: str, wanted: Array, found: Array, place: str) -> str:
    if wanted.shape != found.shape or wanted.dtype.kind in "OU":
        text = f"'{one_line(name)}' is {wanted.dtype}{list(wanted.shape)}, the results are {found.dtype}{list(found.shape)}"
        raise fail("E0808", text, place=place)
    equal = int((np.equal(wanted, found) | ((wanted != wanted) & (found != found))).sum())  # a NaN is like another
    if equal == found.size:
        return f"{one_line(name)}: all {counted(equal, 'element')} as expected"
    wide = np.asarray(wanted, np.float64), np.asarray(found, np.float64)
    noise = output_noise(*([{name: one} for one in each] for each in wide))
    decibels = f", its worst part {-10 * math.log10(noise):.1f} dB" if noise > 0 else ""
    return f"{one_line(name)}: {equal} of {counted(found.size, 'element')} as expected, the furthest off by {_furthest(*wide):.6g}{decibels}"


def _furthest(wanted: Array, found: Array) -> float:
    with np.errstate(invalid="ignore"):
        return float(np.nanmax(np.abs(wanted - found), initial=0.0))


def _right(outputs: Mapping[str, Array], labels: Array, place: str) -> str:
    name, scores = next(iter(outputs.items()))
    if labels.shape != (len(scores),) or labels.dtype.kind not in "iu":
        raise fail("E0808", f"'{LABELS}' is not one whole number for each of {counted(len(scores), 'sample')}", place=place)
    results: Sequence[Mapping[str, Array]] = [{name: each} for each in scores]
    share = right_share(None, results, labels.tolist())
    assert share is not None
    return f"{LABELS}: {100 * share:.2f} % of {counted(len(scores), 'sample')} right by {one_line(name)}"
