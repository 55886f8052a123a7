"""Holds two float models against each other, piece by piece: every operator that a pass wrote computes the same as the operators before the pass.

A piece is an operator of the later model that the earlier one does not have. Its operands and its result are tensors of both, since through all float
stages a name stands for one value. Both forms run on the same operands: made-up values of several times the spread that calibration saw, which reach
limits that a sample may not. So rounding does not add up, and a difference is found at the operator that makes it. Of pictures that are treated
the same everywhere a few rows and columns are enough.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import onnx_ir as ir

from toolchain.graph.operators import interval_of
from toolchain.graph.pieces import OPERAND, WHOLE, Crop, Pieces, SourceModel, cropped, enough, looks_out
from toolchain.graph.rewrite import captured, is_float, known_shape
from toolchain.graph.session import ONCE, run_session
from toolchain.graph.store import Store, open_model
from toolchain.spec.arrays import Array

STEP = "tilewright.step"
"""Metadata of a tensor: the step to which the model itself rounded it, as a float's hexadecimal text."""
TOLERANCE: Mapping[ir.DataType, float] = {ir.DataType.FLOAT: 1e-4, ir.DataType.DOUBLE: 1e-6, ir.DataType.FLOAT16: 1e-2}
"""The difference allowed, in shares of a tensor's largest magnitude. Sums of float32 products in another order differ by some 1e-6 (measured)."""
SPREADS = 4.0
"""Deviation of made-up operands, in deviations of the calibrated values; the values of one tensor in two are of the usual size."""
MOST = 1e30
"""The largest deviation: products of some such operands are still finite numbers."""
MAX_BYTES = 256 << 20
"""The most bytes of operands that one run is fed."""


@dataclass(frozen=True)
class Mismatch:
    """The first tensor that differs: its maker in the later model, the largest difference, and the difference that rounding explains."""

    tensor: str
    node: str
    operator: str
    difference: float
    limit: float

    def text(self) -> str:
        """One line."""
        where = f"node '{self.node}' ({self.operator}) computes '{self.tensor}' otherwise"
        return f"{where}: it differs by {self.difference:.3g}, where rounding explains {self.limit:.3g}"


@dataclass(frozen=True)
class _Piece:
    tensor: str
    node: ir.Node
    before: tuple[set[str], list[ir.Node]]
    after: tuple[set[str], list[ir.Node]]
    crop: Crop = WHOLE

    @property
    def fed(self) -> set[str]:
        return self.before[0] | self.after[0]


def find_mismatch(before: ir.Model, after: ir.Model, deviations: Mapping[str, float], place: str = "", store: Store | None = None) -> Mismatch | None:
    """The first operator of `after` whose result differs from that of `before`; None where all do.

    deviations: root mean square of tensors by name; 1 for others. store: has the weights of both.
    Raises UserError E0910 where ONNX Runtime cannot run a piece.
    """
    old, new = SourceModel(before), SourceModel(after)
    functions = {**before.functions, **after.functions}
    pieces = [piece for piece in _new_pieces(old, new) if all(known_shape(old.values[name]) is not None for name in piece.fed)]
    pieces = [replace(p, crop=enough([old.values[n] for n in sorted(p.fed)], (p.before[1], p.after[1]), functions)) for p in pieces]
    wrong: list[tuple[int, Mismatch]] = []
    for group in _groups(pieces, old):
        names = sorted({name for piece in group for name in piece.fed})
        shapes, later = ({name: cropped(form.values[name], group[0].crop) for name in names if name in form.values} for form in (old, new))
        feeds = {
            f"{OPERAND}{name}": _made_up(old.values[name], shape, deviations.get(name, 1.0), number)
            for number, (name, shape) in enumerate(shapes.items())
        }
        found = _compare(
            group,
            _run(before, [(p.tensor, *p.before) for p in group], shapes, feeds, place, store),
            _run(after, [(p.tensor, *p.after) for p in group], later, feeds, place, store),
        )
        wrong += [(next(i for i, p in enumerate(pieces) if p.tensor == found.tensor), found)] if found else []
    return min(wrong, key=lambda item: item[0])[1] if wrong else None


def _new_pieces(old: SourceModel, new: SourceModel) -> Iterator[_Piece]:
    """In the order of the later model."""
    for node in new.places:
        for value in node.outputs:
            other = old.values.get(value.name or "")
            maker = None if other is None else other.producer()
            if value.name and maker is not None and is_float(value) and not looks_out(maker) and not same_operator(maker, node):
                yield _Piece(value.name, node, *_operands(value.name, old, new))


def _operands(tensor: str, old: SourceModel, new: SourceModel) -> tuple[tuple[set[str], list[ir.Node]], tuple[set[str], list[ir.Node]]]:
    """Operands and operators of a piece in both models.

    Operands of the later one that the earlier does not read on its way to the tensor, such as the other name of a value, are computed and not fed:
    two values that are fed know nothing of each other.
    """
    after = new.operands(tensor, old.values)
    before = old.operands(tensor, after[0])
    if not after[0] <= before[0]:
        after = new.operands(tensor, old.above(tensor))
        before = old.operands(tensor, after[0])
    return before, after


def same_operator(one: ir.Node, other: ir.Node) -> bool:
    """Whether both read the same names with the same attributes. Constants are meant too: a pass that changes one gives it another name."""
    if (one.domain, one.op_type) != (other.domain, other.op_type) or one.attributes.keys() != other.attributes.keys():
        return False
    names = [[value.name if value is not None else None for value in (*node.inputs, *captured(node))] for node in (one, other)]
    return names[0] == names[1] and all(str(one.attributes[key].value) == str(other.attributes[key].value) for key in one.attributes)


def _groups(pieces: Sequence[_Piece], old: SourceModel) -> list[list[_Piece]]:
    """As many as may be fed at once, of the same rows and columns."""
    groups, total = list[list[_Piece]](), 0
    for piece in sorted(pieces, key=lambda piece: piece.crop):
        size = sum(4 * prod(cropped(old.values[name], piece.crop)) for name in piece.fed)
        if not groups or total + size > MAX_BYTES or groups[-1][0].crop != piece.crop:
            groups, total = [*groups, []], 0
        groups[-1].append(piece)
        total += size
    return groups


def _made_up(value: ir.Value, shape: tuple[int, ...], deviation: float, seed: int) -> Array:
    """Values inside the interval that operators before it prove; zeros and ones for whole numbers."""
    dtype = (value.dtype or ir.DataType.FLOAT).numpy()
    random = np.random.default_rng(seed)
    if not is_float(value):
        return random.integers(0, 2, shape).astype(dtype)
    found = random.standard_normal(shape, np.float32)
    found *= min(deviation or 1.0, MOST) * random.choice([1.0, SPREADS], (*shape[:2], *(1,) * (len(shape) - 2))).astype(np.float32)
    return np.clip(found, *interval_of(value)).astype(dtype, copy=False)


def _run(
    model: ir.Model,
    pieces: Sequence[tuple[str, set[str], list[ir.Node]]],
    shapes: Mapping[str, tuple[int, ...]],
    feeds: Mapping[str, Array],
    place: str,
    store: Store | None,
) -> list[Array]:
    gathered = Pieces(model, shapes)
    for piece in pieces:
        gathered.add(*piece)
    session = open_model(gathered.model(), place=place, optimise=False, store=store, threads=ONCE)
    wanted = {entry.name for entry in session.get_inputs()}
    fed = {name: array.reshape(shapes[name.removeprefix(OPERAND)]) for name, array in feeds.items() if name in wanted}
    return list(run_session(session, fed, place=place).values())


def _compare(pieces: Sequence[_Piece], before: Sequence[Array], after: Sequence[Array]) -> Mismatch | None:
    for piece, one, other in zip(pieces, before, after, strict=True):
        value = next(value for value in piece.node.outputs if value.name == piece.tensor)
        largest = float(np.abs(one[np.isfinite(one)]).max(initial=0.0))
        limit = TOLERANCE[value.dtype or ir.DataType.FLOAT] * largest + float.fromhex(value.metadata_props.get(STEP, "0x0p+0")) * 0.51
        difference = _difference(one, other)
        if difference > limit:
            return Mismatch(piece.tensor, piece.node.name or "", piece.node.op_type, difference, limit)
    return None


def same_but_ones(one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether two shapes differ in axes of extent one at most: a stage may keep a tensor as a picture one pixel wide."""
    return [size for size in one if size != 1] == [size for size in other if size != 1]


def _difference(one: Array, other: Array) -> float:
    """The largest; infinite for other shapes, or where one alone is not a number."""
    if not same_but_ones(one.shape, other.shape):
        return float("inf")
    other = other.reshape(one.shape)
    equal = (one == other) | (np.isnan(one) & np.isnan(other))
    if equal.all():
        return 0.0
    apart = np.abs(one[~equal].astype(np.float64) - other[~equal].astype(np.float64))
    return float("inf") if np.isnan(apart).any() else float(apart.max())
