"""Elements that `+=` adds to, each once, and the matrix products that give the addends."""

from dataclasses import dataclass

import numpy as np

from toolchain.emulator.numpy_engine.contraction import Operands, Plan, Product
from toolchain.emulator.numpy_engine.frame import Axes, Frame, Value
from toolchain.emulator.numpy_engine.numerics import is_int


@dataclass(frozen=True, slots=True)
class Target:
    """at: distinct positions, [n] or one int. loops: the shape of the loops before that. taken: which iterations of those
    take part, [*loops]; None is all. number: for each of these the position it is added to; None is one each, in order."""

    at: Value
    loops: tuple[int, ...]
    taken: Value
    number: Value

    def rows(self, rows: Value) -> Value:
        """[*loops, scalars] -> [n, scalars], what belongs to one position added up."""
        if is_int(self.at):
            return rows
        flat = rows.reshape(-1, rows.shape[-1]) if self.taken is None else rows[self.taken]
        if self.number is None:
            return flat
        total = np.zeros((len(self.at), flat.shape[1]), np.int64)
        np.add.at(total, self.number, flat)
        return total


def kept_axes(axes: Axes, at: Value) -> list[bool]:
    """The axes that tell elements apart, and those of replicas."""
    shape = (1,) * axes.loops if is_int(at) else at.shape
    return [axis >= axes.nested or size > 1 for axis, size in enumerate(shape)]


def target(axes: Axes, at: Value, mask: Value, found: Value) -> Target:
    """An addition to memory. at: scalar; mask: the iterations that take part, or None; found: the data, or one number."""
    inner = np.shape(found)[: max(np.ndim(found) - len(axes.lanes), 0)]
    return _target(axes, at, mask, inner)


def _target(axes: Axes, at: Value, mask: Value, inner: tuple[int, ...]) -> Target:
    if is_int(at) and mask is None and all(size == 1 for size in inner):
        return Target(at, (), None, None)
    loops = np.broadcast_shapes((1,) * axes.loops, np.shape(at), () if mask is None else mask.shape, inner)
    where = np.broadcast_to(at, loops)
    taken = None if mask is None or mask.all() else np.broadcast_to(mask, loops)
    flat = where.reshape(-1) if taken is None else where[taken]
    if len(flat) < 2 or bool((flat[1:] > flat[:-1]).all()):
        return Target(flat, loops, taken, None)
    places, number = np.unique(flat, return_inverse=True)
    return Target(flat, loops, taken, None) if len(places) == len(flat) else Target(places, loops, taken, number)


@dataclass(frozen=True, slots=True)
class Part:
    """One matrix product and where it is added. plan: None is a product of two elements."""

    target: Target
    plan: Plan | None

    @property
    def size(self) -> int:
        """Array elements that keeping it takes."""
        return np.size(self.target.at) + (self.plan.size if self.plan else 0)


def additions(f: Frame, product: Product, at: Value) -> list[Part]:
    """Iterations that add to the same elements become one matrix product as far as possible."""
    keep, operands = kept_axes(product.axes, at), product.operands(f)
    if operands is None:
        return [Part(_target(product.axes, at, None, ()), None)]
    shared = [d for d, kept in enumerate(keep) if kept and not is_int(at) and min(at.shape[d], operands.a.shape[d], operands.b.shape[d]) > 1]
    groups = _groups(at, shared[0]) if shared else []
    if not groups or len(groups) == at.shape[shared[0]]:
        return [_part(product, operands, at, keep, product.absent(f, keep, *operands.shapes))]
    axis = shared[0]
    without = [kept and d != axis for d, kept in enumerate(keep)]
    times = product.absent(f, without, *operands.shapes)
    stacked = operands.stacked(axis, groups)
    if stacked is not None:
        return [_part(product, stacked, at.take([chosen[0] for chosen in groups], axis=axis), [*keep, False], times)]
    return [_part(product, operands.part(axis, chosen), at.take(chosen[:1], axis=axis), without, times) for chosen in groups]


def _part(product: Product, operands: Operands, at: Value, keep: list[bool], times: int) -> Part:
    gone = tuple(axis for axis, kept in enumerate(keep) if not kept)
    mask: Value = None if operands.mask is None else operands.mask.any(axis=gone, keepdims=True)
    if mask is not None and mask.ndim > product.axes.loops:
        mask = mask[..., 0]
    plan = product.plan(operands, keep, times)
    return Part(_target(product.axes, at, mask, plan.shape[: product.axes.loops]), plan)


def _groups(at: Value, axis: int) -> list[Value]:
    """Iterations of an axis whose positions are equal in all others."""
    found: dict[bytes, list[int]] = {}
    for number, part in enumerate(np.moveaxis(at, axis, 0)):
        found.setdefault(part.tobytes(), []).append(number)
    return [np.array(numbers) for numbers in found.values()]
