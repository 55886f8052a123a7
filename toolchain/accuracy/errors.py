"""How far each tensor of the integer network is from the float one, and each part of every output: signal to noise in dB, worst first."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from toolchain.graph.integers.calls import FLOAT_NAME, SCALE, check_oracle, factors_of, integer_tensors, real_channels, zero_of
from toolchain.graph.integers.functions import GREATEST
from toolchain.graph.quantisation.table import ranging, sample_at, sample_count
from toolchain.graph.rewrite import is_float
from toolchain.graph.session import run_session
from toolchain.graph.store import open_model
from toolchain.spec.arrays import Array
from toolchain.spec.model.quantisation import Range

Doubles = np.typing.NDArray[np.float64]
MOST = 1e300
"""Stands for energy without end; 1 / MOST for none."""
MOST_PARTS = 128
LEAST_ELEMENTS = 16
"""An axis is split where it has at most MOST_PARTS entries of at least LEAST_ELEMENTS elements each."""


@dataclass
class Energy:
    """The energy of a wanted tensor and of its difference to one that was found: sums of squares, of the wanted values, and counts of elements.

    lost: elements whose error exceeds the deviation of the part's own wanted values, in the samples seen.
    """

    signal: float = 0.0
    noise: float = 0.0
    elements: int = 0
    lost: int = 0

    def add(self, wanted: Array, found: Array) -> None:
        """An element that is not finite in both adds no energy; in one alone it is noise without end."""
        one, other = wanted.astype(np.float64).ravel(), found.astype(np.float64).ravel()
        equal = (one == other) | (np.isnan(one) & np.isnan(other))
        with np.errstate(invalid="ignore", over="ignore"):
            error = np.abs(np.where(equal, 0.0, other - one))
            finite = one[np.isfinite(one)]
            self.signal += float((finite**2).sum())
            self.noise += float(np.nan_to_num(error**2, nan=MOST, posinf=MOST).sum())
            self.lost += int((~(error <= max(float(finite.std()) if finite.size else 0.0, 1 / MOST))).sum())
        self.elements += one.size

    @property
    def sqnr(self) -> float:
        """Signal to noise in dB, infinite without any noise."""
        if self.noise == 0:
            return math.inf
        return 10 * (math.log10(min(max(self.signal, 1 / MOST), MOST)) - math.log10(min(self.noise, MOST)))

    @property
    def lost_share(self) -> float:
        return self.lost / self.elements if self.elements else 0.0


def part_axis(shape: tuple[int, ...]) -> int:
    """The axis whose entries are judged separately, such as boxes and scores of a detector; 0 where the tensor is judged as a whole.

    Of the axes after the batch, the one with the fewest entries: more would be positions, not kinds.
    """
    size = int(np.prod(shape)) if shape else 1
    fitting = [k for k in range(1, len(shape)) if 1 < shape[k] <= MOST_PARTS and size // max(shape[0], 1) // shape[k] >= LEAST_ELEMENTS]
    return min(fitting, key=lambda k: (shape[k], k), default=0)


Samples = Mapping[str, Array]
Runs = Callable[[Mapping[str, Array]], Mapping[str, Array]]
"""Computes the outputs of the network as the user gave it, of one sample."""


@dataclass(frozen=True)
class TensorError:
    """One tensor. sqnr: signal to quantisation noise, dB. clipped: share of values at a limit of the stored type. cut: share of
    the float network's values that lie further out, by more than a step."""

    tensor: str
    operation: str
    sqnr: float
    scale: float
    clipped: float
    cut: float = 0.0


@dataclass(frozen=True)
class OutputPart:
    """An entry of an output along an axis, or the whole of it (axis 0). lost: share of elements whose error exceeds the part's own deviation."""

    index: int
    sqnr: float
    lost: float


@dataclass(frozen=True)
class Output:
    """A floating-point output of the model. sqnr: of the whole, dB. axis: along which parts are judged, 0 for none; worst part first."""

    sqnr: float
    axis: int
    parts: tuple[OutputPart, ...]


@dataclass(frozen=True)
class Errors:
    """tensors: the stored ones, worst first. outputs: by name, held against the file that the user gave."""

    tensors: tuple[TensorError, ...]
    outputs: Mapping[str, Output]


@dataclass
class _Stored:
    energy: Energy = field(default_factory=Energy)
    clipped: list[float] = field(default_factory=list[float])
    cut: list[float] = field(default_factory=list[float])


@dataclass
class Ends:
    """The energies of an output and of its parts; the first sample's shape settles the axis."""

    axis: int = 0
    whole: Energy = field(default_factory=Energy)
    parts: dict[int, Energy] = field(default_factory=dict[int, Energy])

    def add(self, wanted: Array, found: Array) -> None:
        if wanted.shape != found.shape:  # results whose number depends on the data cannot be held against each other one by one
            self.whole.noise, self.whole.elements = np.inf, self.whole.elements + 1
            return
        if not self.whole.elements:
            self.axis = part_axis(wanted.shape)
        self.whole.add(wanted, found)
        if self.axis and self.axis < wanted.ndim:
            for index in range(wanted.shape[self.axis]):
                self.parts.setdefault(index, Energy()).add(wanted.take(index, self.axis), found.take(index, self.axis))

    def output(self) -> Output:
        held = self.parts or {0: self.whole}
        parts = [OutputPart(index, energy.sqnr, energy.lost_share) for index, energy in held.items()]
        return Output(self.whole.sqnr, self.axis if self.parts else 0, tuple(sorted(parts, key=lambda part: (part.sqnr, part.index))))


def error_table(reference: ir.Model, integer: ir.Model, samples: Samples, stored: Range) -> list[TensorError]:
    """The tensors of `measure_errors`, outputs left out."""
    return list(measure_errors(None, reference, integer, samples, stored).tensors)


def measure_errors(given: Runs | None, reference: ir.Model, integer: ir.Model, samples: Samples, stored: Range | Mapping[str, Range]) -> Errors:
    """Runs all networks on all samples ([count, *shape] by input). given: the outputs to hold the integers' against; None for the reference's own.

    reference: a float stage, which has the tensors that the stored ones stand for. stored: of the machine's activations, or of
    each machine's by the domain of its integers.
    """
    check_oracle()
    values = integer_tensors(integer)
    names = {value.metadata_props[FLOAT_NAME]: value for value in values}
    watched = [value for node in reference.graph for value in node.outputs if value.name in names]
    sources = {value.name or "": value for value in (*reference.graph.inputs, *watched)}
    floats, integers = open_model(reference, watched), open_model(integer, values)
    outputs = [value.name or "" for value in reference.graph.outputs if is_float(value) and isinstance(value.type, ir.TensorType)]
    tensors, ends = {name: _Stored() for name in names}, {name: Ends() for name in outputs}
    for index in range(sample_count(samples)):
        one = sample_at(samples, index)
        wanted, found = run_session(floats, one) | one, run_session(integers, one)
        for name, value in names.items():
            if name in wanted:
                limits = stored if isinstance(stored, Range) else stored[_domain(value)]
                (ranged,) = ranging(sources[name], [wanted[name]])
                _add(tensors[name], wanted[name], ranged, real_channels(value, found[value.name or ""]), value, limits)
        truth = wanted if given is None else given(one)
        for name, end in ends.items():
            end.add(truth[name], found[name])
    rows = [_row(name, value, tensors[name]) for name, value in names.items() if tensors[name].clipped]
    ordered = sorted(rows, key=lambda row: (row.sqnr, row.tensor))
    return Errors(tuple(ordered), {name: end.output() for name, end in ends.items()})


def _add(held: _Stored, wanted: Array, ranged: Array, found: Array, value: ir.Value, stored: Range) -> None:
    """ranged: the wanted values that set the range; others do not count. found: the integers of a stored tensor, or halves; the host hands over none
    beyond the greatest, as a mask's least number is. A zero at the end of the range is not cut off."""
    scale, zero = float.fromhex(value.metadata_props[SCALE]), zero_of(value)
    if value.dtype in (ir.DataType.FLOAT16, ir.DataType.FLOAT):
        most = GREATEST["f16" if value.dtype == ir.DataType.FLOAT16 else "bf16"]
        same, wanted = ranged is wanted, np.clip(wanted, -most, most)
        ranged = wanted if same else np.clip(ranged, -most, most)
    reals = (found.astype(np.float64) - zero) * scale / factors_of(value)
    held.energy.add(ranged, reals if ranged is wanted else np.where(ranged == wanted, reals, ranged))
    low = (found <= stored.low) & (zero > stored.low)
    held.clipped.append(float(((found >= stored.high) | low).mean()))
    steps = ranged.astype(np.float64) * factors_of(value) / scale + zero
    held.cut.append(float(((steps > stored.high + 1) | (steps < stored.low - 1)).mean()))


def _domain(value: ir.Value) -> str:
    maker = value.producer()
    return maker.domain if maker is not None else ""


def _row(name: str, value: ir.Value, held: _Stored) -> TensorError:
    maker = value.producer()
    clipped, cut = (sum(shares) / max(len(shares), 1) for shares in (held.clipped, held.cut))
    return TensorError(name, maker.op_type if maker else "", held.energy.sqnr, float.fromhex(value.metadata_props[SCALE]), clipped, round(cut, 6))


def error_text(rows: Sequence[TensorError]) -> str:
    """The table as text; units in the header."""
    width = max([len(row.tensor) for row in rows] + [6])
    lines = [f"{'tensor':<{width}}  {'operation':<14} {'SQNR [dB]':>9}  {'scale':>12}  {'clipped [%]':>11}"]
    lines += [f"{row.tensor:<{width}}  {row.operation:<14} {row.sqnr:>9.2f}  {row.scale:>12.6g}  {100 * row.clipped:>11.3f}" for row in rows]
    return "\n".join(lines) + "\n"
