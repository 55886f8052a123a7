"""The calibration table: what was seen in every tensor of the float network, rounded, as a file that is shipped with a model."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from toolchain.graph.histogram import BINS, Spread, count, rounded, spread
from toolchain.graph.rewrite import shape_of
from toolchain.graph.running import open_model
from toolchain.graph.session import run_session
from toolchain.spec.errors import fail
from toolchain.spec.files import read_limited, write_atomic

VERSION = 1
MAX_BYTES = 64 << 20
Samples = Mapping[str, np.typing.NDArray[Any]]


@dataclass(frozen=True)
class Seen:
    """spread: of all values. means: of each channel (axis 1)."""

    spread: Spread
    means: tuple[float, ...]


@dataclass(frozen=True)
class Table:
    """By tensor name. samples: how many inputs were seen."""

    samples: int
    tensors: Mapping[str, Seen]


@dataclass
class _Sums:
    counts: np.typing.NDArray[np.int64] = field(default_factory=lambda: np.zeros(BINS, np.int64))
    maximum: float = 0.0
    means: Any = 0.0

    def add(self, values: np.typing.NDArray[np.float32]) -> None:
        self.counts = self.counts + count(values)
        self.maximum = max(self.maximum, float(np.abs(values).max(initial=0)))
        axes = tuple(axis for axis in range(values.ndim) if axis != 1)
        with np.errstate(invalid="ignore", over="ignore"):  # what is no number is told in the end
            self.means = self.means + values.mean(axes, dtype=np.float64)


def calibrate(model: ir.Model, samples: Samples, place: str = "") -> Table:
    """Runs the float network on every sample and keeps what each tensor held.

    samples: [count, ...] for every input, each entry one input of the network without its batch axis.
    Raises UserError E0916 where the samples do not fit the inputs or are no numbers, E0921 where the network makes NaN or infinity of them.
    """
    number = _check(model, samples, place)
    values = [value for node in model.graph for value in node.outputs if value.dtype == ir.DataType.FLOAT and value.name]
    values += [value for value in model.graph.inputs if value.dtype == ir.DataType.FLOAT]
    session = open_model(model, values, place)
    sums = {value.name or "": _Sums() for value in values}
    for index in range(number):
        one = {name: array[index : index + 1] for name, array in samples.items()}
        for name, array in (run_session(session, one, place=place) | one).items():
            if name in sums:
                sums[name].add(np.ascontiguousarray(array, np.float32))
    _check_finite(model, sums, place)
    return Table(number, {name: _seen(sums[name], number) for name in sorted(sums)})


def _check_finite(model: ir.Model, sums: Mapping[str, _Sums], place: str) -> None:
    """One NaN or infinity in a tensor leaves the mean of its channel none either. The first node in order is the one to blame."""
    for node in model.graph:
        for value in node.outputs:
            found = sums.get(value.name or "")
            if found and not np.isfinite([found.maximum, *np.atleast_1d(found.means)]).all():
                text = f"node '{node.name}' ({node.op_type}) makes NaN or infinity of a calibration sample in the tensor '{value.name}'"
                raise fail("E0921", text, place=place)


def _seen(sums: _Sums, number: int) -> Seen:
    return Seen(spread(sums.counts, sums.maximum), tuple(rounded(float(mean) / number) for mean in np.atleast_1d(sums.means)))


def _check(model: ir.Model, samples: Samples, place: str) -> int:
    wanted = {value.name or "": shape_of(value) for value in model.graph.inputs}
    if set(samples) != set(wanted):
        text = f"samples are for {', '.join(sorted(samples)) or 'nothing'}, the inputs are {', '.join(sorted(wanted))}"
        raise fail("E0916", text, place=place)
    counts = {len(array) for array in samples.values()}
    if len(counts) != 1 or 0 in counts:
        raise fail("E0916", "there must be samples, equally many for every input", place=place)
    for name, array in samples.items():
        if array.shape[1:] != wanted[name][1:] or wanted[name][:1] != (1,):
            text = f"samples of shape {array.shape[1:]} do not fit the input '{name}' of shape {wanted[name]}"
            raise fail("E0916", text, hint="the batch dimension must be 1", place=place)
        if not np.isfinite(array).all():
            raise fail("E0916", f"a sample of the input '{name}' holds NaN or infinity", place=place)
    return counts.pop()


def write_table(table: Table, path: Path) -> None:
    """JSON, one tensor a line. Raises UserError E0005."""
    lines = [
        f" {json.dumps(name)}: " + json.dumps({"maximum": s.spread.maximum, "bins": s.spread.bins, "means": s.means}, separators=(",", ":"))
        for name, s in sorted(table.tensors.items())
    ]
    write_atomic(path, (f'{{"version": {VERSION}, "samples": {table.samples}, "tensors": {{\n' + ",\n".join(lines) + "\n}}\n").encode())


def read_table(path: Path) -> Table:
    """Raises UserError E0001, E0330 and E0917 (not a calibration table)."""
    try:
        found: Any = json.loads(read_limited(path, MAX_BYTES, "calibration table"))
        if found["version"] != VERSION:
            raise ValueError(f"version {found['version']}")
        tensors = {str(name): _entry(entry) for name, entry in found["tensors"].items()}
        return Table(int(found["samples"]), tensors)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise fail("E0917", f"not a calibration table: {type(error).__name__} {error}"[:200], place=str(path)) from None


def _entry(entry: Any) -> Seen:
    bins = tuple((int(number), int(parts)) for number, parts in entry["bins"])
    maximum, means = float(entry["maximum"]), tuple(float(mean) for mean in entry["means"])
    if not np.isfinite([maximum, *means]).all() or maximum < 0 or any(not 0 <= number < BINS or parts < 0 for number, parts in bins):
        raise ValueError("a value is out of range")
    return Seen(Spread(maximum, bins), means)
