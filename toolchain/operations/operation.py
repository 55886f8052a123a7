"""An operation with its numbers and known tensors: the work of a kernel, and the numbers and arrays that kernels may name."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from toolchain.operations.ending import Scaling, first_stored, requantised
from toolchain.operations.floating import Bounds, compute, integers_of, number_bounds
from toolchain.operations.kind import BIAS_RANGE, CHANNELS, UNIT, OperationKind
from toolchain.operations.numbers import Attributes, attribute_numbers, complete, extents_of, macs_of, result_shape
from toolchain.operations.reads import narrow, read_all
from toolchain.operations.reference import accumulate
from toolchain.spec.arrays import Array
from toolchain.spec.errors import fail
from toolchain.spec.expr import Const, Index, Name, walk
from toolchain.spec.model.quantisation import Numerics

Picture = tuple[int, int, int, int]
PICTURE_AXES: Mapping[int, tuple[int, ...]] = {2: (0, 1), 3: (0, 2, 1), 4: (0, 1, 2, 3)}
"""For a tensor of so many axes, which axis of a picture [batch, channels, height, width] each one is: rows of a sequence have channels behind."""
ENDS = {"shift": 0, "low": -128, "high": 127, "slope": 0, "slope_shift": 0, "multiplier": 1, "scale_bits": 0}
BY_CHANNEL = ("multipliers", "shifts", "scales")
"""Arrays of an operation each of whose channels has a scale of its own."""


@dataclass(frozen=True, eq=False)
class Operation:
    """numbers: a value for each of the kind's. arrays: of its known tensors, int8 weights and int32 biases at the sum's own position; where each
    channel has a scale of its own, int32 `multipliers` and `shifts` too, or `shifts` alone, or float32 `scales`. In a floating format float16
    weights and float32 biases; low, high and slope are then bits of a float32 (see `floating.Bounds`).
    """

    kind: OperationKind
    name: str
    numbers: Mapping[str, int]
    arrays: Mapping[str, Array]

    @cached_property
    def packed(self) -> dict[Hashable, bytes]:
        """Bytes that others have made of its arrays, by everything else that they depend on, to be had again as long as the operation is there."""
        return {}

    @property
    def output(self) -> Picture:
        """(batch, channels, height, width) of the result."""
        return picture_of(result_shape(self.kind, self.numbers))

    def input(self, operand: str) -> Picture:
        """(batch, channels, height, width) of a computed operand."""
        return picture_of([self.numbers[extent] for extent in self.kind.operand[operand].extents])

    @cached_property
    def macs(self) -> int:
        """Multiply-accumulates, those with padding included."""
        return macs_of(self.kind, self.numbers)

    @cached_property
    def free_rows(self) -> bool:
        """Whether any order of the rows of the known tensors only changes the order of the result's channels."""
        rows = {next(iter(self.kind.operand[name].axes), "") for name in self.kind.known}
        if len(rows) != 1 or len(self.kind.result.axes) < 2 or rows != {list(self.kind.result.axes)[1]}:
            return False
        (row,) = rows
        loops = {index: range(min(self.numbers[extent], 2 if index != row else self.numbers[extent])) for index, extent in self._loops().items()}
        scope = read_all({}, self.numbers, loops, 0, unbounded=True)
        reads = [
            e for e in walk(self.kind.meaning.of or Const(0)) if isinstance(e, Index) and isinstance(e.base, Name) and e.base.id in self.kind.data
        ]
        axis = list(loops).index(row)
        return all(narrow(scope.value(part, {})).shape[axis] == 1 for read in reads for part in read.index)

    def _loops(self) -> dict[str, str]:
        return {**self.kind.result.axes, **self.kind.meaning.over}

    def reach(self, most: int = 128) -> int:
        """The largest magnitude that any partial sum can have, the rounding half included. most: of a stored element less its zero."""
        kind, over = self.kind, math.prod(self.numbers[extent] for extent in self.kind.meaning.over.values())
        half = self.numbers["half"] if kind.scaled and self._only_shifts else 0
        if kind.form == "weighted":
            return self._weighted_reach(most) + half
        if kind.form == "aligned":
            return sum(abs(self.numbers[name]) for name in kind.multipliers) * most + half
        if kind.form == "average":
            return over * abs(self.numbers["multiply"]) * most + half
        return over * kind.factors.size * most**kind.factors.total + half if kind.form == "computed" else most

    def stays_below(self, limit: int, most: int = 128) -> bool:
        """Whether no partial sum reaches `limit`, which most operations show by their sizes alone. most: as in `reach`."""
        return self._quick_reach(most) < limit or self.reach(most) < limit

    def _quick_reach(self, most: int) -> float:
        """No less than `reach`, without a look at the weights; infinite where the input's zero counts."""
        kind = self.kind
        if kind.form != "weighted" or (kind.bias and self.numbers.get(f"zero_{kind.data[0]}", 0)):
            return math.inf
        over = math.prod(self.numbers[extent] for extent in kind.meaning.over.values())
        largest = 1 << (8 * self.arrays[kind.weights].dtype.itemsize - 1)
        bias = int(np.abs(self.arrays[kind.bias].astype(np.int64)).max()) if kind.bias else 0
        return over * largest * most + bias + self.numbers.get(UNIT, 0) * most + self.numbers["half"]

    @property
    def _only_shifts(self) -> bool:
        """Whether the sum itself is rounded, not a product of it."""
        return self.numbers["multiplier"] == 1 and not self.numbers["scale_bits"] and not {"multipliers", "scales"} & self.arrays.keys()

    def _weighted_reach(self, most: int) -> int:
        """Extremes of the sums with either bias: the plain one, and the one that folds in the operands' zero points."""
        sums = _row_sums(self.kind, np.abs(self.arrays[self.kind.weights].astype(np.int16)))
        biases = [np.abs(self.constants[name].astype(np.int64)) for name in (self.kind.bias, "folded")] if self.kind.bias else [np.zeros(1, np.int64)]
        return max(int((sums * most + np.maximum.reduce(biases)).max()), self.numbers.get(UNIT, 0) * most)

    @cached_property
    def constants(self) -> dict[str, Array]:
        """The arrays that kernels may name: `arrays`, and of an operation with a bias those of each channel's ending, int32.

        scales: the bits of a float32. folded: the bias for weights that multiply stored integers, not those less their zero, around the edges too.
        Floating numbers are named by their bits.
        """
        if any(array.dtype.kind == "f" for name, array in self.arrays.items() if name in self.kind.known):
            return self._spelled
        if not self.kind.bias:
            return dict(self.arrays)
        bias = self.arrays[self.kind.bias].astype(np.int64)
        zero = self.numbers.get(f"zero_{self.kind.data[0]}", 0)
        signed = _row_sums(self.kind, self.arrays[self.kind.weights].astype(np.int16)) if zero else 0
        ends = {"multipliers": self.numbers["multiplier"], "shifts": self.numbers["shift"], "scales": self.numbers["scale_bits"]}
        own = {name: np.full(bias.shape, value, np.int32) for name, value in ends.items() if name not in self.arrays}
        if "scales" in self.arrays:
            own["scales"] = self.arrays["scales"].astype(np.float32).view(np.int32)
        return {**self.arrays, **own, "folded": bias - zero * signed}

    @property
    def _spelled(self) -> dict[str, Array]:
        """Floating arrays as integers of the same bits; there are no scales."""
        bits = {name: integers_of(array, name == self.kind.bias) for name, array in self.arrays.items()}
        return {**dict.fromkeys(CHANNELS, np.zeros(len(bits[self.kind.bias]), np.int32)), **bits} if self.kind.bias else bits

    def run(self, operands: Mapping[str, Array], numerics: Numerics) -> Array:
        """The reference's result, a picture of stored numbers. operands: pictures [batch, channels, height, width], by name."""
        shaped = {name: from_picture(array, len(self.kind.operand[name].axes)) for name, array in operands.items()}
        if numerics.floats is not None:
            known = {name: self.arrays[name] for name in self.kind.known}
            bounds = number_bounds(self.numbers) if self.kind.scaled else Bounds()
            return to_picture(compute(self.kind, self.numbers, {**shaped, **known}, bounds, numerics.floats))
        if self.kind.form == "table":
            return self.arrays["table"][operands["x"].astype(np.int64) - first_stored(numerics)]
        centred = {name: array.astype(np.int64) - self.numbers.get(f"zero_{name}", 0) for name, array in shaped.items()}
        total = accumulate(self.kind, self.numbers, {**centred, **{name: self.arrays[name] for name in self.kind.known}})
        if self.kind.scaled:
            return to_picture(requantised(total, self._scaling(), bool(self.numbers["slope"]), self.numbers, numerics))
        return to_picture((total + (self.numbers[self.kind.zeros[0]] if self.kind.zeros else 0)).astype(numerics.stored))

    def _scaling(self) -> Scaling:
        """Multiplier of the sums."""
        if not any(name in self.arrays for name in BY_CHANNEL):
            bits = np.array(self.numbers["scale_bits"], np.int32)
            return Scaling(bits.view(np.float32)) if bits else Scaling(np.int64(self.numbers["multiplier"]), np.int64(self.numbers["shift"]))
        rows = self.kind.operand[self.kind.bias].axes
        column = [-1 if index in rows else 1 for index in self.kind.result.axes]
        if "scales" in self.arrays:
            return Scaling(self.arrays["scales"].reshape(column))
        return Scaling(*(self.constants[name].astype(np.int64).reshape(column) for name in ("multipliers", "shifts")))


def _row_sums(kind: OperationKind, weights: Array) -> Array:
    """Over the reduced axes, int64."""
    axes = kind.operand[kind.weights].axes
    return weights.sum(axis=tuple(axis for axis, index in enumerate(axes) if index in kind.meaning.over), dtype=np.int64)


def picture_of(shape: Sequence[int]) -> Picture:
    """A tensor's shape as (batch, channels, height, width). Raises UserError E1003 for another rank than 2, 3 or 4."""
    if len(shape) not in PICTURE_AXES:
        raise fail("E1003", f"a tensor of {len(shape)} axes is no picture and no row")
    sizes = [1, 1, 1, 1]
    for size, axis in zip(shape, PICTURE_AXES[len(shape)], strict=True):
        sizes[axis] = int(size)
    return sizes[0], sizes[1], sizes[2], sizes[3]


def to_picture(array: Array) -> Array:
    """A tensor of 2, 3 or 4 axes as [batch, channels, height, width]."""
    return array.transpose(0, 2, 1)[..., None] if array.ndim == 3 else array.reshape(picture_of(array.shape))


def from_picture(array: Array, axes: int) -> Array:
    """The tensor of so many axes that stands as a picture; one of 2 axes may have been flattened."""
    if axes == 3:
        return array[..., 0].transpose(0, 2, 1)
    return array.reshape(len(array), -1) if axes == 2 else array


def make_operation(
    kind: OperationKind, name: str, pictures: Mapping[str, Sequence[int]], arrays: Mapping[str, Array], numbers: Attributes
) -> Operation:
    """pictures: (batch, channels, height, width) of computed operands. arrays: of known ones, of their declared number of axes or flattened.

    numbers: attributes as ONNX calls have them, or single numbers by name; an attribute that is left out takes its default.
    Raises UserError E1003 where shapes do not fit each other, or nothing is left.
    """
    known = attribute_numbers(kind, numbers) | {key: int(value) for key, value in numbers.items() if key in kind.numbers}
    for operand, picture in pictures.items():
        extents, axes = kind.operand[operand].extents, PICTURE_AXES[len(kind.operand[operand].axes)]
        _agree(known, dict(zip(extents, (int(picture[axis]) for axis in axes), strict=True)), name, operand)
    shaped: dict[str, Array] = {}
    for operand, array in arrays.items():
        shaped[operand] = array if operand not in kind.operand else _as_declared(kind, operand, array, known, name)
    return finished(kind, name, known, shaped)


def _as_declared(kind: OperationKind, operand: str, array: Array, known: dict[str, int], name: str) -> Array:
    """A known tensor with its declared axes; one row's elements may stand in a single axis."""
    declared = kind.operand[operand]
    sizes = [known.get(extent, 0) for extent in declared.extents]
    if array.ndim < len(sizes) and all(sizes[1:]) and math.prod(sizes[1:]) == math.prod(array.shape[1:]):
        array = array.reshape(len(array), *sizes[1:])
    shape = extents_of(declared, array.shape, name)
    _agree(known, dict(zip(declared.extents, shape, strict=True)), name, operand)
    return array.reshape(shape)


def _agree(known: dict[str, int], extents: Mapping[str, int], name: str, operand: str) -> None:
    for extent, size in extents.items():
        if known.setdefault(extent, size) != size:
            raise fail("E1003", f"the shapes of '{name}' do not fit each other: {extent} is {known[extent]} and, of '{operand}', {size}")


def finished(kind: OperationKind, name: str, known: Mapping[str, int], arrays: Mapping[str, Array]) -> Operation:
    """An operation with every number that follows from others. Raises UserError E1003 as `complete` does."""
    numbers = {**dict.fromkeys(kind.zeros, 0), **complete(kind, known, name)}
    if kind.scaled:
        numbers = {**ENDS, **dict.fromkeys(kind.multipliers, 1), **numbers}
        least = numbers["shift"]
        if "shifts" in arrays and "multipliers" not in arrays:
            least, numbers["shift"] = int(arrays["shifts"].min()), int(arrays["shifts"].max())
        if least < 0:
            raise fail("E1003", f"'{name}' shifts by {least}")
        numbers |= {"half": (1 << numbers["shift"]) >> 1, "shift_least": least}
    if kind.bias and arrays[kind.bias].dtype.kind == "f":
        numbers |= dict.fromkeys(BIAS_RANGE, 0)
    elif kind.bias:
        bias = arrays[kind.bias]
        low = int(np.bitwise_or.reduce(bias.astype(np.int64).ravel()))
        numbers |= {"bias_least": int(bias.min()), "bias_most": int(bias.max()), "bias_zeros": (low & -low).bit_length() - 1 if low else 0}
    return Operation(kind, name, {key: numbers[key] for key in kind.numbers}, arrays)
