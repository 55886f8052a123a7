"""The calibration table: statistics of every tensor of the float network on samples, rounded, as a file that is shipped with a model.

Padding that only a maximum reads, and therefore drops, counts for nothing: no scale has to hold it, and the integers may cut it off."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from toolchain.graph.integers.functions import kind_of
from toolchain.graph.nodes import shape_text
from toolchain.graph.operators import pad_fill
from toolchain.graph.quantisation.ranges import BINS, Spread, count, rounded, spread
from toolchain.graph.rewrite import is_float, is_operator, known_shape, text
from toolchain.graph.session import ONCE, Session, run_session
from toolchain.graph.states import MOVES
from toolchain.graph.store import open_model
from toolchain.spec.arrays import Array, Floats, Reals
from toolchain.spec.errors import fail
from toolchain.spec.files import read_limited, write_atomic
from toolchain.spec.on_cores import MOST, on_cores


def ranging(value: ir.Value, arrays: Sequence[Array]) -> Sequence[Array]:
    """The values of a tensor that set its range, one array a sample: zeros stand for a padding below them that max pools drop."""
    node = value.producer()
    fill = pad_fill(node) if node is not None and _is_dropped(node) else None
    if fill is None:
        return arrays
    bare = [np.where(array == array.dtype.type(fill), array.dtype.type(0), array) for array in arrays]
    return bare if fill < min(float(array.min(initial=0)) for array in bare) else arrays


def _is_dropped(node: ir.Node) -> bool:
    """Whether a node pads with a constant, and max pools alone read the result."""
    if not is_operator(node, "Pad") or text(node, "mode", "constant") != "constant":
        return False
    readers = [reader for reader, _ in node.outputs[0].uses()]
    pooled = all(is_operator(reader, "MaxPool") or kind_of(reader) == "max_pool" for reader in readers)
    return bool(readers) and pooled and not node.outputs[0].is_graph_output()


VERSION = 2
MAX_BYTES = 64 << 20
Samples = Mapping[str, Array]
"""By input: [count, *shape], each entry one whole input with its batch axis."""
Means = Mapping[str, tuple[float, ...]]
"""By tensor, the mean of each channel."""


@dataclass(frozen=True)
class SeenTensor:
    """spread: of all values. means: of each channel, which is axis 1 and, of a sequence of rows, axis 2."""

    spread: Spread
    means: tuple[float, ...]


@dataclass(frozen=True)
class Table:
    """tensors: by name. samples: how many inputs were seen, 0 where the ranges are those that a quantised model declares.

    unusable: tensors that held NaN or infinity. failure: why nothing was seen, where the model could not be run on its samples.
    """

    samples: int
    tensors: Mapping[str, SeenTensor]
    unusable: tuple[str, ...] = ()
    failure: str = ""

    @property
    def means(self) -> Means:
        """The means of every tensor that was seen."""
        return {name: seen.means for name, seen in self.tensors.items()}


LIKE = "tilewright.like"
"""Metadata of a tensor whose elements are zeros, and those of another one times a factor: that as a hexadecimal float, and the other's name."""


def with_moved(graph: ir.Graph, table: Table) -> Table:
    """The table with tensors that were not seen, but whose elements are all those of one that was: before moves, or behind them, or times a factor
    and with zeros among them, as a pass for one machine makes such behind the calibration that all share. Means of their channels are left out, as
    channels may be others. graph: sorted."""
    seen, unusable = dict(table.tensors), {*table.unusable}
    for value in (value for node in graph for value in node.outputs if LIKE in value.metadata_props):
        factor, _, known = value.metadata_props[LIKE].partition(" ")
        if known in seen:
            seen[value.name or ""] = SeenTensor(seen[known].spread.times(float.fromhex(factor)), ())
        elif known in unusable:
            unusable.add(value.name or "")
    moves = [(node.inputs[0].name or "", node.outputs[0].name or "") for node in graph if is_operator(node, *MOVES) and node.inputs[0] is not None]
    for known, other in (*moves, *((after, before) for before, after in reversed(moves))):
        if known in unusable:
            unusable.add(other)
        elif known in seen and other not in seen:
            seen[other] = SeenTensor(seen[known].spread, ())
    if len(seen) == len(table.tensors) and len(unusable) == len(table.unusable):
        return table
    return replace(table, tensors=seen, unusable=tuple(sorted(unusable)))


GATHERED = 1 << 16
"""Bytes of a tensor that are counted at once: of small ones, each call costs more than its arithmetic."""


@dataclass
class _Sums:
    """waiting: arrays of equal shapes that are not counted yet."""

    means: Reals | float = 0.0
    counts: np.typing.NDArray[np.int64] = field(default_factory=lambda: np.zeros(BINS, np.int64))
    maximum: float = 0.0
    low: float = 0.0
    high: float = 0.0
    waiting: list[Floats] = field(default_factory=list["Floats"])

    def add(self, values: Floats) -> None:
        if self.waiting and self.waiting[0].shape != values.shape:
            self.count()
        if values.size:
            self.waiting.append(values)
        if values.nbytes * len(self.waiting) >= GATHERED:
            self.count()

    def count(self) -> None:
        """Counts the values that wait."""
        if not self.waiting:
            return
        values = np.stack(self.waiting) if len(self.waiting) > 1 else self.waiting[0][None]
        self.waiting = []
        self.take(values)

    def take(self, values: Floats) -> None:
        """[count, *shape]."""
        channel = 3 if values.ndim == 4 else 2
        channels = values.shape[channel] if channel < values.ndim else 1
        apart = values.reshape(len(values), math.prod(values.shape[1:channel]) if channel < values.ndim else 1, channels, -1)
        with np.errstate(invalid="ignore", over="ignore"):  # what is no number is told in the end
            sums = np.einsum("nbca->nc", apart, dtype=np.float64)  # in half the time of a mean
            self.means = self.means + sums.sum(0) / (apart.shape[1] * apart.shape[3])

        self.counts += count(values)
        self.low, self.high = min(self.low, float(values.min())), max(self.high, float(values.max()))
        self.maximum = max(self.maximum, -self.low, self.high)


def calibrate(model: ir.Model, samples: Samples, place: str = "") -> Table:
    """Runs the float network on every sample and keeps statistics of each tensor.

    samples: by input, [count, *shape]. Raises UserError E0916 where they do not fit the inputs or are not finite, E0910 where ONNX Runtime
    cannot run the model on them, E0921 where no sample gives a number at any output.
    """
    number = check_samples(model, samples, place)
    values = [value for node in model.graph for value in node.outputs if is_float(value) and value.name]
    values += [value for value in model.graph.inputs if is_float(value)]
    named = {value.name or "": value for value in values}
    sums = {name: _Sums() for name in named}
    _observe(open_model(model, values, place, threads=ONCE), samples, named, sums, place)
    unusable = tuple(name for name in sorted(sums) if not np.isfinite([sums[name].maximum, *np.atleast_1d(sums[name].means)]).all())
    _check_outputs(model, unusable, place)
    return Table(number, {name: _seen(sums[name], number) for name in sorted(sums) if name not in unusable}, unusable)


def _observe(session: Session, samples: Samples, named: Mapping[str, ir.Value], sums: Mapping[str, _Sums], place: str) -> None:
    """Runs every sample and counts the named tensors among its inputs and outputs, each tensor's in the order of the samples."""
    given, names = [sample_at(samples, index) for index in range(sample_count(samples))], list(sums)
    for first in range(0, len(given), MOST):
        ran = on_cores(lambda one: run_session(session, one, place=place) | one, given[first : first + MOST])
        on_cores(partial(_add, ran, named, sums), (names[::2], names[1::2]))
    for each in sums.values():
        each.count()


def _add(ran: Sequence[Samples], named: Mapping[str, ir.Value], sums: Mapping[str, _Sums], names: Sequence[str]) -> None:
    """Counts some tensors. ran: tensors by name, of each sample."""
    for name in names:
        for tensors in ran:
            sums[name].add(np.ascontiguousarray(ranging(named[name], [tensors[name]])[0], np.float32))


def seen_of(arrays: Sequence[Array]) -> SeenTensor:
    """One tensor, an array a sample."""
    sums = _Sums()
    for array in arrays:
        sums.add(np.ascontiguousarray(array, np.float32))
    sums.count()
    return _seen(sums, len(arrays))


def _check_outputs(model: ir.Model, unusable: Sequence[str], place: str) -> None:
    """A network without a single finite output has a defect; the first node in order is the one to blame."""
    outputs = [value for value in model.graph.outputs if is_float(value)]
    if not outputs or any(value.name not in unusable for value in outputs):
        return
    node, value = next((node, value) for node in model.graph for value in node.outputs if value.name in unusable)
    text = f"node '{node.name}' ({node.op_type}) makes NaN or infinity of a calibration sample in the tensor '{value.name}', and so does every output"
    raise fail("E0921", text, place=place)


def _seen(sums: _Sums, number: int) -> SeenTensor:
    return SeenTensor(spread(sums.counts, sums.maximum, sums.low, sums.high), _rounded_means(sums, number))


def _rounded_means(sums: _Sums, number: int) -> tuple[float, ...]:
    return tuple(rounded(float(mean) / number) for mean in np.atleast_1d(sums.means))


def check_samples(model: ir.Model, samples: Samples, place: str) -> int:
    """How many samples there are. Raises UserError E0916 where they do not fit the inputs or are not finite."""
    wanted = {value.name or "": known_shape(value) for value in model.graph.inputs}
    if set(samples) != set(wanted):
        text = f"samples are for {', '.join(sorted(samples)) or 'no input'}, the inputs are {', '.join(sorted(wanted)) or 'none'}"
        raise fail("E0916", text, place=place)
    counts = {len(array) for array in samples.values()} or {1}
    if len(counts) != 1 or 0 in counts:
        raise fail("E0916", "there must be samples, equally many for every input", place=place)
    for name, array in samples.items():
        shape = wanted[name]
        if shape is not None and array.shape[1:] != shape:
            raise fail(
                "E0916", f"samples of shape {shape_text(array.shape[1:])} do not fit the input '{name}' of shape {shape_text(shape)}", place=place
            )
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise fail("E0916", f"a sample of the input '{name}' holds NaN or infinity", place=place)
    return counts.pop()


def sample_count(samples: Samples) -> int:
    """The number of samples that every input has; 1 where there is no input."""
    return min((len(array) for array in samples.values()), default=1)


def sample_at(samples: Samples, index: int) -> dict[str, Array]:
    """One sample by name: [*shape] of [count, *shape]."""
    return {name: np.asarray(array[index]) for name, array in samples.items()}


def joined(samples: Array) -> Array:
    """[count * batch, ...] of [count, batch, ...]: samples one behind the other along the batch. A sample without axes stays one a place."""
    return samples.reshape(samples.shape[0] * samples.shape[1], *samples.shape[2:]) if samples.ndim > 1 else samples


def write_table(table: Table, path: Path) -> None:
    """JSON, one tensor a line. Raises UserError E0005."""
    lines = [f" {json.dumps(name)}: " + json.dumps(_written(s), separators=(",", ":")) for name, s in sorted(table.tensors.items())]
    head = json.dumps({"version": VERSION, "samples": table.samples, "failure": table.failure, "unusable": table.unusable})
    write_atomic(path, (f'{head[:-1]}, "tensors": {{\n' + ",\n".join(lines) + "\n}}\n").encode())


def _written(seen: SeenTensor) -> dict[str, object]:
    ends = {} if seen.spread.low is None else {"range": (seen.spread.low, seen.spread.high)}
    return {"maximum": seen.spread.maximum, **ends, "bins": seen.spread.bins, "means": seen.means}


def read_table(path: Path) -> Table:
    """Raises UserError E0001, E0330 and E0917 (not a calibration table)."""
    try:
        found: Any = json.loads(read_limited(path, MAX_BYTES, "calibration table"))
        if found["version"] != VERSION:
            raise ValueError(f"version {found['version']}")
        tensors = {str(name): _entry(entry) for name, entry in found["tensors"].items()}
        return Table(int(found["samples"]), tensors, tuple(str(name) for name in found["unusable"]), str(found["failure"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise fail("E0917", f"not a calibration table: {type(error).__name__} {error}"[:200], place=str(path)) from None


def _entry(entry: Any) -> SeenTensor:
    bins = tuple((int(number), int(parts)) for number, parts in entry["bins"])
    maximum, means = float(entry["maximum"]), tuple(float(mean) for mean in entry["means"])
    ends = tuple(float(end) for end in entry.get("range", ()))
    if not np.isfinite([maximum, *means, *ends]).all() or maximum < 0 or any(not 0 <= number < BINS or parts < 0 for number, parts in bins):
        raise ValueError("a value is out of range")
    if ends and (len(ends) != 2 or ends[0] > ends[1]):
        raise ValueError("a range is not one")
    return SeenTensor(Spread(maximum, bins, *ends), means)
