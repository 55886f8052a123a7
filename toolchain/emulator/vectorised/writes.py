"""Stores: what is written where, at once or when the transaction ends."""

from collections.abc import Callable

import numpy as np

from toolchain.emulator.vectorised.contraction import Operands, Product, find_product
from toolchain.emulator.vectorised.data import Data
from toolchain.emulator.vectorised.frame import Frame, Value
from toolchain.emulator.vectorised.gathering import summed
from toolchain.emulator.vectorised.lanes import ChosenLanes, WholeLanes
from toolchain.emulator.vectorised.loops import Action
from toolchain.emulator.vectorised.narrowing import Fit, narrowed
from toolchain.emulator.vectorised.numerics import is_int
from toolchain.emulator.vectorised.storage import scalar_dtype
from toolchain.emulator.vectorised.transaction import Note, Site
from toolchain.isa import ir
from toolchain.spec.expr import Expr


class Writes:
    """Builds the stores of one instruction."""

    def __init__(self, data: Data) -> None:
        self.data, self.axes, self.storage = data, data.axes, data.scalars.storage

    def copy(self, access: ir.Access, value: Callable[[Frame], Value], site: Site) -> Action:
        """value: uint8 [*loops, bytes of an element]"""
        find, write = self.data.scalars.addresses.find(access), self.storage.writer(access.view)

        def copy(f: Frame) -> None:
            rows, at = value(f), find(f)
            if is_int(at) and rows.ndim == 1 and f.mask is None:
                kept = rows if f.transaction is None else rows.copy()
                _write(f, site, at, lambda: write(at, kept))
                return
            loops = self._loops(f, at, rows.shape[:-1])
            where, chosen = np.broadcast_to(at, loops), np.broadcast_to(rows, loops + rows.shape[-1:])
            if f.mask is not None:
                taken = np.broadcast_to(f.mask, loops)
                where, chosen = where[taken], chosen[taken]
            _write(f, site, at, lambda: write(where, chosen))

        return copy

    def _loops(self, f: Frame, at: Value, *shapes: tuple[int, ...]) -> tuple[int, ...]:
        """The loop axes that a store runs over."""
        ones = (1,) * self.axes.loops
        return np.broadcast_shapes(ones, np.shape(at), () if f.mask is None else f.mask.shape, *shapes)

    def store(self, access: ir.Access, e: Expr, site: Site) -> Action:
        """Free lanes of an element, all of them or those that the access leaves open."""
        find, value, lanes = self.data.scalars.addresses.find(access), self.data.value(e), self.data.lanes(access)
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
                where = np.broadcast_to(at, loops)
                if f.mask is not None:
                    taken = np.broadcast_to(f.mask, loops)
                    where, rows = where[taken], rows[taken]
            _write(f, site, at, lambda: write(where, rows))

        return whole

    def _part(self, access: ir.Access, lanes: ChosenLanes) -> Callable[[Frame, Site, Value, Value, tuple[int, ...]], None]:
        """Scalar by scalar: iterations may write different lanes of one element."""
        scatter, size = self.storage.scatter(access.view), access.view.element.scalar.bits // 8
        shape = self.axes.lane_shape(tuple(lane for lane in access.lanes or () if isinstance(lane, str)))

        def part(f: Frame, site: Site, at: Value, found: Value, loops: tuple[int, ...]) -> None:
            chosen = lanes.positions(f)
            if chosen.ndim > len(shape):
                loops = self._loops(f, at, loops, chosen.shape[: -len(shape)])
            where = np.broadcast_to(self.axes.lift(at), loops + shape)
            chosen, values = np.broadcast_to(chosen, loops + shape), np.broadcast_to(found, loops + shape)
            if f.mask is not None:
                taken = np.broadcast_to(f.mask, loops)
                where, chosen, values = where[taken], chosen[taken], values[taken]
            _write(f, site, at, lambda: scatter(where, chosen * size, values))

        return part

    def add(self, access: ir.Access, e: Expr, site: Site) -> Action:
        """`+=` to whole elements of a memory where the order of additions does not matter."""
        find, product, value = self.data.scalars.addresses.find(access), find_product(self.data, e), self.data.value(e)
        memory, kind = self.data.scalars.machine.memory[access.view.memory], access.view.element.scalar
        fit, lanes = narrowed(kind, memory.overflow, None, f"'{access.view.name}'"), WholeLanes(access, self.axes)
        commit = self._adder(access, lanes, fit)

        def add(f: Frame) -> None:
            at = find(f)
            keep = self._kept(at)
            for where, mask, found in _sums(self.data, f, product, value, at, keep):
                commit(f, where, mask, found)
            if f.transaction is not None:
                f.transaction.notes.append(Note(site, "add", at, tuple(f.times), f.mask))

        return add

    def _kept(self, at: Value) -> list[bool]:
        """The axes that tell elements apart, and those of replicas."""
        if is_int(at):
            return [axis < self.axes.first for axis in range(self.axes.loops)]
        return [axis < self.axes.first or size > 1 for axis, size in enumerate(at.shape)]

    def _adder(self, access: ir.Access, lanes: WholeLanes, fit: Fit) -> Callable[[Frame, Value, Value, Value], None]:
        read, write = self.data.rows(access), self.storage.writer(access.view)
        dtype = scalar_dtype(access.view.element.scalar)

        def commit(f: Frame, at: Value, mask: Value, found: Value) -> None:
            if is_int(at) and mask is None and found.ndim == len(self.axes.lanes):
                where, rows = at, lanes.gather(found, ())
            else:
                loops = self._loops_of(at, mask, found)
                where, rows = np.broadcast_to(at, loops), lanes.gather(found, loops)
                where, rows = (where.reshape(-1), rows.reshape(-1, rows.shape[-1])) if mask is None else (
                    where[np.broadcast_to(mask, loops)], rows[np.broadcast_to(mask, loops)])  # fmt: skip
                where, rows = _together(where, rows)

            def apply() -> None:
                total = fit(f, read(where).astype(np.int64) + rows)
                write(where, np.ascontiguousarray(total.astype(dtype)).view(np.uint8))

            if f.transaction is None:
                apply()
            else:
                f.transaction.waiting.append(apply)

        return commit

    def _loops_of(self, at: Value, mask: Value, found: Value) -> tuple[int, ...]:
        inner = found.shape[: found.ndim - len(self.axes.lanes)]
        return np.broadcast_shapes((1,) * self.axes.loops, np.shape(at), () if mask is None else mask.shape, inner)


def _sums(
    data: Data, f: Frame, product: Product | None, value: Callable[[Frame], Value], at: Value, keep: list[bool]
) -> list[tuple[Value, Value, Value]]:
    """(positions, mask, what to add), each element's iterations added up as far as one matrix product can."""
    gone = tuple(axis for axis, kept in enumerate(keep) if not kept)
    mask = None if f.mask is None else f.mask.any(axis=gone, keepdims=True)
    if product is None:
        found = summed(data, f, value(f), keep)
        return [(at, mask, np.asarray(found) if not is_int(found) else np.full((1,) * len(data.axes.lanes), found))]
    a, b = product.a.find(f), product.b.find(f)
    if is_int(a) and is_int(b) and f.mask is None:
        return [(at, mask, product.sums(f, keep))]
    operands = product.operands(a, b, f.mask)
    shared = [d for d, kept in enumerate(keep) if kept and not is_int(at) and min(at.shape[d], operands.a.shape[d], operands.b.shape[d]) > 1]
    parts = _groups(at, shared[0]) if shared else []
    if not parts or len(parts) == at.shape[shared[0]]:
        return [(at, mask, product.contract(f, operands, keep))]
    return [_group(f, product, operands, at, keep, shared[0], chosen) for chosen in parts]


def _group(f: Frame, product: Product, operands: Operands, at: Value, keep: list[bool], axis: int, chosen: Value) -> tuple[Value, Value, Value]:
    """The iterations of one axis that write the same elements, added up."""
    part, keep = operands.part(axis, chosen), [kept and d != axis for d, kept in enumerate(keep)]
    gone = tuple(d for d, kept in enumerate(keep) if not kept)
    mask = None if part.mask is None else part.mask.any(axis=gone, keepdims=True)
    return at.take(chosen[:1], axis=axis), mask, product.contract(f, part, keep)


def _groups(at: Value, axis: int) -> list[Value]:
    """Which iterations of an axis have equal positions in all others."""
    found: dict[bytes, list[int]] = {}
    for number, part in enumerate(np.moveaxis(at, axis, 0)):
        found.setdefault(part.tobytes(), []).append(number)
    return [np.array(numbers) for numbers in found.values()]


def _together(where: Value, rows: Value) -> tuple[Value, Value]:
    """Every position once, with the sum of its rows."""
    if len(where) < 2 or bool((where[1:] > where[:-1]).all()):
        return where, rows
    places, number = np.unique(where, return_inverse=True)
    if len(places) == len(where):
        return where, rows
    total = np.zeros((len(places), rows.shape[1]), np.int64)
    np.add.at(total, number, rows)
    return places, total


def _write(f: Frame, site: Site, at: Value, write: Callable[[], None]) -> None:
    """Now, or when the transaction ends."""
    if f.transaction is None:
        write()
        return
    f.transaction.notes.append(Note(site, "write", at, tuple(f.times), f.mask))
    f.transaction.waiting.append(write)
