"""One operation for one kernel of one machine: everything that does not depend on the tiles, and the input rows that a range of output
rows reads."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np

from toolchain.operations.operation import Operation
from toolchain.schedule.kernels.frame import Frame
from toolchain.schedule.kernels.kernel import NEAR, Kernel, Step, Window, numbers_of
from toolchain.schedule.kernels.limits import Known, check_numbers, faults
from toolchain.schedule.kernels.pools import Pool, Slot, pools_of
from toolchain.schedule.kernels.rounds import Rounds, RowRing
from toolchain.spec.arrays import Ints, evaluate_arrays
from toolchain.spec.errors import fail
from toolchain.spec.evaluate import constant
from toolchain.spec.model import Machine
from toolchain.spec.reasons import Why, refuse


def window_names(window: Window, start: int, size: int, numbers: Mapping[str, int]) -> dict[str, int]:
    """The window's names for output rows start..start + size - 1."""
    stride, reach, before, extent, step = (constant(e, numbers) for e in (window.stride, window.reach, window.before, window.extent, window.step))
    low = start * stride - before
    high = (start + size - 1) * stride - before + reach
    first, stop = max(low, 0), min(high, extent)
    front, count, back = max(-low, 0), -(-(stop - first) // step), max(high - extent, 0)
    values = {"first": first, "count": count, "before": front, "after": back, "window": front + count + back}
    return {f"{window.name}_{key}": value for key, value in values.items()}


def loaded_names(window: Window, rows: range) -> dict[str, int]:
    """The window's names for a load of these input rows, whoever reads them."""
    values = {"first": rows.start, "count": len(rows), "before": 0, "after": 0, "window": len(rows)}
    return {f"{window.name}_{key}": value for key, value in values.items()}


def largest_window(window: Window, size: Ints, numbers: Mapping[str, Ints]) -> dict[str, Ints]:
    """The window's names for tiles of `size` output rows, as if they stood where nothing is cut off. numbers: without axes."""
    stride, reach, extent, step = (evaluate_arrays(e, numbers) for e in (window.stride, window.reach, window.extent, window.step))
    whole = -(-((size - 1) * stride + reach) // step)
    zero = np.zeros_like(size)
    values = {"first": zero, "count": np.minimum(whole, extent), "before": zero, "after": zero, "window": whole}
    return {f"{window.name}_{key}": value for key, value in values.items()}


@dataclass(frozen=True)
class Kept:
    """A whole tensor on chip: its slot, its elements in each bank, and the names of its place. ring: that begins again at its end; None for one that
    goes round all banks, and for a tensor that is there whole. together: rows of a line of the ring."""

    slot: Slot
    size: int
    names: Mapping[str, int]
    ring: RowRing | None = None
    together: int = 1

    @cached_property
    def rounds(self) -> Rounds | None:
        """Rounds of the ring; None where there is none that begins again."""
        return self.ring.rounds(self.together) if self.ring else None

    def stands_with(self, other: "Kept | None") -> bool:
        """Whether it is a ring that stands in one place with another one."""
        return other is not None and self.ring is not None and (self.slot, self.ring) == (other.slot, other.ring)

    def slot_for(self, rows: range) -> Slot:
        """The slot at which the first row of all would stand if the ring were whole, so that these rows stand where they are read."""
        return self.slot_in(self.rounds.read(rows)) if self.rounds else self.slot

    def slot_in(self, number: int) -> Slot:
        """As `slot_for` has it, for the rows of a round."""
        return Slot(self.slot.bank, self.slot.address + (self.ring.begin(number) if self.ring else 0))


@dataclass(frozen=True)
class Problem:
    """numbers: the operation's and the kernel's own, and DIMENSION_all. extents: by dimension. steps: those that apply.

    pools: of each memory. kept: places whose tensors stay on chip as a whole; the tiles of others share the rest. followed: other operations
    come after it, which can start on the rows that are complete. slab: of a member of a group, the outermost loop and the size of its tiles.
    retiled: the number of the other tiling that a search tries (`other_tilings`), 0 for the best by the estimate.
    """

    machine: Machine
    kernel: Kernel
    operation: Operation
    numbers: Mapping[str, int]
    extents: Mapping[str, int]
    steps: tuple[Step, ...]
    pools: Mapping[str, tuple[Pool, ...]]
    kept: Mapping[str, Kept] = field(default_factory=dict[str, Kept])
    followed: bool = False
    slab: tuple[str, int] | None = None
    retiled: int = 0

    @property
    def chained(self) -> bool:
        """Whether tensors are handed over on chip."""
        return bool(self.kept)

    @property
    def elsewhere(self) -> frozenset[str]:
        """Places without slots of their own: of tensors that stay on chip, and of tiles that other operations of the group have left there."""
        return frozenset(self.kept) | frozenset(self.kernel.handed)

    @cached_property
    def known(self) -> frozenset[str]:
        """Tensors whose values are known when compiling."""
        return frozenset(t.name for t in self.kernel.tensors if t.values is not None)

    @cached_property
    def arrays(self) -> dict[str, Ints]:
        """The numbers as arrays without axes."""
        return {name: np.array(value, np.int64) for name, value in self.numbers.items()}

    @cached_property
    def memories(self) -> dict[str, str]:
        """By place, the memory that its tiles stand in."""
        return {place.name: place.memory for place in self.kernel.places}

    def rows(self, window: Window, first: int, size: int) -> dict[str, int]:
        """The result of `window_names` for a range of output rows; ranges come back for every channel tile."""
        key = window.name, first, size
        if key not in self._rows:
            self._rows[key] = window_names(window, first, size, self.numbers)
        return self._rows[key]

    @cached_property
    def _rows(self) -> dict[tuple[str, int, int], dict[str, int]]:
        return {}

    def without_weights(self) -> "Problem":
        """The same for a cache, which would keep the weights of many networks alive."""
        return replace(self, operation=replace(self.operation, arrays={}))

    def loads(self, place: str) -> Step | None:
        """The step that fills a place, or None for a tile that is made on chip."""
        return next((s for s in self.steps if s.kind == "load" and s.place == place), None)

    def filling(self, place: str) -> Step | None:
        """The step that would fill a place if its tensor were not on chip."""
        numbers = {**self.numbers, f"{place}_kept": 0}
        return next((step for step in _steps(self.kernel, numbers) if step.kind == "load" and step.place == place), None)


def copied_places(problem: Problem) -> frozenset[str]:
    """Places that the kernel can fill with copies of its operands: they are loaded, and are neither operands themselves nor known when compiling."""
    loaded = frozenset(step.place for step in problem.kernel.steps if step.kind == "load")
    return loaded - frozenset(problem.operation.kind.data) - problem.known


def state_problem(machine: Machine, kernel: Kernel, operation: Operation) -> Problem:
    """Raises UserError E1003 where the kernel cannot do the operation."""
    if operation.kind.name != kernel.computes:
        raise fail("E1003", f"kernel '{kernel.name}' computes {kernel.computes}, and '{operation.name}' is a {operation.kind.name}", kernel.span)
    check_numbers(machine, kernel, operation.kind, operation.numbers)
    found = _case(_Given(machine, kernel, tuple(operation.numbers.items())))
    return Problem(machine, kernel, operation, found.numbers, found.extents, found.steps, found.pools)


@dataclass(frozen=True, slots=True, eq=False)
class _Given:
    """One machine, one kernel, and the numbers of an operation. Machines and kernels never change, and are compared by identity."""

    machine: Machine
    kernel: Kernel
    numbers: tuple[tuple[str, int], ...]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Given):
            return NotImplemented
        return self.machine is other.machine and self.kernel is other.kernel and self.numbers == other.numbers

    def __hash__(self) -> int:
        return hash((id(self.machine), id(self.kernel), self.numbers))


@dataclass(frozen=True)
class _Case:
    """The parts of a Problem that follow from an operation's numbers."""

    numbers: Mapping[str, int]
    extents: Mapping[str, int]
    steps: tuple[Step, ...]
    pools: Mapping[str, tuple[Pool, ...]]


@lru_cache(maxsize=1024)
def _case(given: _Given) -> _Case:
    """Found once for the stages of a build, which all state the same problems."""
    machine, kernel = given.machine, given.kernel
    numbers = numbers_of(kernel, dict(given.numbers))
    extents = {d.name: constant(d.extent, numbers) for d in kernel.tile}
    _check_windows(kernel, numbers, extents)
    numbers |= {f"{name}_all": extent for name, extent in extents.items()} | {
        f"{p.name}_{end}": 0 for p in kernel.places for end in ("kept", "receivers")
    }
    numbers |= {f"{t.name}_shared": 0 for t in kernel.tensors}
    numbers |= {f"{t.name}_{end}": value for t in kernel.tensors if t.waits for end, value in NEAR.items()}
    steps = _steps(kernel, numbers)
    _check_fields(machine, kernel, steps, numbers)
    return _Case(numbers, extents, steps, pools_of(machine, kernel.pools))


def _check_windows(kernel: Kernel, numbers: Mapping[str, int], extents: Mapping[str, int]) -> None:
    """Raises UserError E1003 for a window that lies in the padding as a whole: there is nothing to load."""
    for window in kernel.windows:
        for first in (0, extents[window.of] - 1):
            if window_names(window, first, 1, numbers)[f"{window.name}_count"] < 1:
                raise refuse("E1003", Why.WINDOW(kernel=kernel.name, axis=window.name), kernel.span)


def _check_fields(machine: Machine, kernel: Kernel, steps: tuple[Step, ...], numbers: Mapping[str, int]) -> None:
    """Raises UserError E1003 for a number of the operation that the field of an instruction does not hold."""
    known = Known(Frame(1, numbers.__getitem__), frozenset(numbers))
    for step in steps:
        if not isinstance(step.code, str):
            for fault in faults(machine, step.code, known, np.zeros(1, np.int64)):
                raise refuse("E1003", Why.FIELD([fault.reason], kernel=kernel.name), fault.span)


def _steps(kernel: Kernel, numbers: Mapping[str, int]) -> tuple[Step, ...]:
    """The steps that apply."""
    return tuple(s for s in kernel.steps if s.when is None or constant(s.when, numbers))


def keep_on_chip(problem: Problem, kept: Mapping[str, Kept], stored: bool, pools: Mapping[str, tuple[Pool, ...]]) -> Problem:
    """The problem among others of a region, where some tensors stay on chip: nothing of them is loaded, and they are stored only if someone needs
    them in DRAM."""
    numbers = {**problem.numbers, **{f"{name}_kept": 1 for name in kept}}
    steps = tuple(
        s for s in _steps(problem.kernel, numbers) if s.place not in kept or s.kind not in ("load", "store") or (s.kind == "store" and stored)
    )
    return replace(problem, steps=steps, pools=pools, kept=kept, numbers=numbers, followed=True)
