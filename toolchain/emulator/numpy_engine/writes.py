"""Stores, carried out at once or when the transaction ends; additions to elements, each once, as matrix products where they are."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from toolchain.emulator.numpy_engine.addresses import Address
from toolchain.emulator.numpy_engine.contraction import Operands, Product, ProductPlan, find_product
from toolchain.emulator.numpy_engine.data import Data
from toolchain.emulator.numpy_engine.expressions import is_int, spread
from toolchain.emulator.numpy_engine.frame import Axes, Frame, Run, Value
from toolchain.emulator.numpy_engine.gathering import narrowed, summed
from toolchain.emulator.numpy_engine.loops import Action
from toolchain.emulator.numpy_engine.storage import ChosenLanes, WholeLanes, scalar_dtype
from toolchain.emulator.numpy_engine.transaction import Site
from toolchain.isa.semantics import ir
from toolchain.spec.expr import Expr


@dataclass(frozen=True, slots=True)
class Target:
    """at: distinct positions, [n] or one int. loops: the shape of the loops before that. taken: which iterations of those
    take part, [*loops]; None is all. number: for each of these the position it is added to; None is one each, in order."""

    at: Value
    loops: tuple[int, ...]
    taken: Value
    number: Value

    def rows(self, rows: Value) -> Value:
        """[*loops, scalars] -> [n, scalars], scalars of one position added up."""
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
    plan: ProductPlan | None

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


Commit = Callable[[Frame, Target, Value], None]
"""Adds data to elements, now or when the transaction ends."""


class Writes:
    """Builds the stores of one instruction."""

    def __init__(self, data: Data) -> None:
        self.data, self.axes, self.storage = data, data.axes, data.scalars.storage

    def copy(self, access: ir.Access, value: Callable[[Frame], Value], site: Site) -> Action:
        """value: uint8 [*loops, bytes of an element]"""
        find, write = self.data.scalars.address(access), self.storage.writer(access.view)

        def copy(f: Frame) -> None:
            rows, at = value(f), find(f)
            if is_int(at) and rows.ndim == 1 and f.mask is None:
                kept = rows if f.transaction is None else rows.copy()
                _write(f, site, at, lambda: write(f, at, kept))
                return
            loops = self._loops(f, at, rows.shape[:-1])
            where, chosen = spread(at, loops), spread(rows, loops + rows.shape[-1:])
            if f.mask is not None:
                taken = np.broadcast_to(f.mask, loops)
                where, chosen = where[taken], chosen[taken]
            _write(f, site, at, lambda: write(f, where, chosen))

        return copy

    def _loops(self, f: Frame, at: Value, *shapes: tuple[int, ...]) -> tuple[int, ...]:
        """The loop axes that a store runs over."""
        if f.mask is None and len(shapes) == 1 and np.shape(at) == shapes[0]:
            return shapes[0]
        ones = (1,) * self.axes.loops
        return np.broadcast_shapes(ones, np.shape(at), () if f.mask is None else f.mask.shape, *shapes)

    def store(self, access: ir.Access, e: Expr, site: Site) -> Action:
        """Free lanes of an element, all of them or those that the access leaves open."""
        find, value, lanes = self.data.scalars.address(access), self.data.value(e), self.data.lanes(access)
        memory, kind = self.data.scalars.machine.memory[access.view.memory], access.view.element.scalar
        fit, dtype = narrowed(kind, memory.overflow, e, f"'{access.view.name}'"), scalar_dtype(kind)
        write = self._whole(access, lanes) if isinstance(lanes, WholeLanes) else self._part(access, lanes)
        count = len(self.axes.lanes)

        def store(f: Frame) -> None:
            found, at = fit(f, value(f)), find(f)
            found = np.asarray(found).astype(dtype)
            inner = found.shape[: found.ndim - count] if found.ndim > count else ()
            write(f, site, at, found, self._loops(f, at, inner) if inner or not is_int(at) or f.mask is not None else ())

        return store

    def _whole(self, access: ir.Access, lanes: WholeLanes) -> Callable[[Frame, Site, Value, Value, tuple[int, ...]], None]:
        write = self.storage.writer(access.view)

        def whole(f: Frame, site: Site, at: Value, found: Value, loops: tuple[int, ...]) -> None:
            rows = np.ascontiguousarray(lanes.gather(found, loops)).view(np.uint8)
            where = at
            if loops:
                where = spread(at, loops)
                if f.mask is not None:
                    taken = np.broadcast_to(f.mask, loops)
                    where, rows = where[taken], rows[taken]
            _write(f, site, at, lambda: write(f, where, rows))

        return whole

    def _part(self, access: ir.Access, lanes: ChosenLanes) -> Callable[[Frame, Site, Value, Value, tuple[int, ...]], None]:
        """Scalar by scalar: iterations may write different lanes of one element."""
        scatter, size = self.storage.scatter(access.view), access.view.element.scalar.bits // 8
        shape = self.axes.lane_shape(tuple(lane for lane in access.lanes or () if isinstance(lane, str)))

        def part(f: Frame, site: Site, at: Value, found: Value, loops: tuple[int, ...]) -> None:
            chosen = lanes.positions(f)
            if chosen.ndim > len(shape):
                loops = self._loops(f, at, loops, chosen.shape[: chosen.ndim - len(shape)])
            where = np.broadcast_to(self.axes.lift(at), loops + shape)
            chosen, values = np.broadcast_to(chosen, loops + shape), np.broadcast_to(found, loops + shape)
            if f.mask is not None:
                taken = np.broadcast_to(f.mask, loops)
                where, chosen, values = where[taken], chosen[taken], values[taken]
            _write(f, site, at, lambda: scatter(f, where, chosen * size, values))

        return part

    def add(self, access: ir.Access, e: Expr, site: Site) -> Action:
        """`+=` to whole elements of a memory where the order of additions does not matter."""
        find, product = self.data.scalars.address(access), find_product(self.data, e)
        commit = self._adder(access)
        add = self._add_products(product, find, commit) if product else self._add_values(self.data.value(e), find, commit)

        def noted(f: Frame) -> None:
            add(f)
            if f.transaction is not None:
                f.transaction.note(site, "add", find(f), f.times, f.mask)

        return noted

    def _add_values(self, value: Run, find: Address, commit: Commit) -> Action:
        def add(f: Frame) -> None:
            at = find(f)
            keep, mask = kept_axes(self.axes, at), f.mask
            if mask is not None:
                mask = mask.any(axis=tuple(axis for axis, kept in enumerate(keep) if not kept), keepdims=True)
            found = summed(self.data, f, value(f), keep)
            commit(f, target(self.axes, at, mask, found), np.asarray(found))

        return add

    def _add_products(self, product: Product, find: Address, commit: Commit) -> Action:
        scalars = self.data.scalars
        planned = scalars.keys.remember(scalars.needs.all, lambda f: additions(f, product, find(f)), lambda parts: sum(part.size for part in parts))

        def add(f: Frame) -> None:
            for part in planned(f):
                commit(f, part.target, product.one(f, kept_axes(self.axes, find(f))) if part.plan is None else product.product(f, part.plan))

        return add

    def _adder(self, access: ir.Access) -> Commit:
        memory, kind = self.data.scalars.machine.memory[access.view.memory], access.view.element.scalar
        fit, lanes = narrowed(kind, memory.overflow, None, f"'{access.view.name}'"), WholeLanes(access, self.axes)
        read, write, dtype = self.data.rows(access), self.storage.writer(access.view), scalar_dtype(kind)
        wraps = memory.overflow == "wrap"

        def commit(f: Frame, where: Target, found: Value) -> None:
            rows = where.rows(lanes.gather(found, where.loops))

            def apply() -> None:
                old = read(f, where.at)
                total = np.add(old, rows, dtype=dtype, casting="unsafe") if wraps else fit(f, old.astype(np.int64) + rows).astype(dtype)
                write(f, where.at, total.view(np.uint8))

            if f.transaction is None:
                apply()
            else:
                f.transaction.waiting.append(apply)

        return commit


def _write(f: Frame, site: Site, at: Value, write: Callable[[], None]) -> None:
    """Now, or when the transaction ends."""
    if f.transaction is None:
        write()
        return
    f.transaction.note(site, "write", at, f.times, f.mask)
    f.transaction.waiting.append(write)
