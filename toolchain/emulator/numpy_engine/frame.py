"""One program on one state, to which compiled instructions are bound; the values of an instruction while it runs, and the record of its steps."""

import itertools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolchain.analysis.state import State
from toolchain.emulator.numpy_engine.transaction import Transaction
from toolchain.isa.program import Program
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.instances import replica_levels
from toolchain.spec.arrays import Array
from toolchain.spec.errors import UserError, fail
from toolchain.spec.model import Machine

LARGEST = 1 << 16
"""Bytes of a memory whose contents are compared; the contents of a larger one are new whenever it was written."""

KNOWN = 256
"""Contents of one memory that are told apart at once."""


class Contents:
    """The contents that a machine's registers and control memories were seen to hold."""

    def __init__(self) -> None:
        self._known: dict[str, dict[tuple[bytes, ...], int]] = {}
        self._numbers = itertools.count()

    def new(self) -> int:
        """A number that no contents have yet."""
        return next(self._numbers)

    def number(self, name: str, parts: tuple[bytes, ...]) -> int:
        """The number of a memory's contents. Numbers that are forgotten are not given again."""
        known = self._known.setdefault(name, {})
        found = known.get(parts)
        if found is None:
            if len(known) >= KNOWN:
                known.clear()
            found = known[parts] = self.new()
        return found


class Versions:
    """The numbers of one state's contents, found when they are asked for."""

    def __init__(self, state: State, contents: Contents) -> None:
        self._state, self._contents = state, contents
        self._current: dict[str, int] = {}

    def number(self, name: str) -> int:
        """The number of the memory's present contents."""
        found = self._current.get(name)
        if found is None:
            found = self._current[name] = self._find(name)
        return found

    def changed(self, name: str) -> None:
        """The memory was written."""
        self._current.pop(name, None)

    def all_changed(self) -> None:
        """Any memory may have been written."""
        self._current.clear()

    def _find(self, name: str) -> int:
        state = self._state
        arrays = [held[name] for held in (state.memories, state.host, state.latched, state.written) if name in held]
        if sum(array.nbytes for array in arrays) > LARGEST:
            return self._contents.new()
        return self._contents.number(name, tuple(array.tobytes() for array in arrays))


class ArrayLayout:
    """How the bytes of a memory are seen as an array: items of `dtype`, one every `step` bytes, `row` of them side by side (0: no rows).

    Compared by identity, so that looking an array up costs little.
    """

    def __init__(self, memory: str, dtype: np.dtype[np.generic], step: int, row: int = 0) -> None:
        self.memory, self.dtype, self.step, self.row = memory, dtype, step, row

    def array(self, flat: NDArray[np.uint8]) -> Array:
        """The bytes of all instances in this layout, not copied."""
        if self.row:
            return flat.view(self.dtype).reshape(-1, self.row)
        count = (flat.size - self.dtype.itemsize) // self.step + 1
        return np.ndarray((count,), self.dtype, flat.data, 0, (self.step,))


class Arrays(dict[ArrayLayout, Array]):
    """The memories of one state in every layout that is asked for. flat: each memory as one run of bytes."""

    def __init__(self, state: State) -> None:
        super().__init__()
        self.flat = {name: array.reshape(-1) for name, array in state.memories.items()}

    def __missing__(self, layout: ArrayLayout) -> Array:
        found = self[layout] = layout.array(self.flat[layout.memory])
        return found


class ProgramSession:
    """index: the instruction that executes."""

    def __init__(self, program: Program, state: State, contents: Contents) -> None:
        self.program, self.state = program, state
        self.arrays, self.versions = Arrays(state), Versions(state, contents)
        self.index = 0

    def label(self) -> str:
        """How messages name the executing instruction."""
        return self.program.label(self.index)

    def close(self) -> None:
        """Lets go of everything: steps that are kept for the next run must not keep this one's memories."""
        vars(self).clear()


Value = Any
"""An int or a numpy array as the module says."""

ITERATIONS = 1 << 25
"""More than these at once are split, so that address arrays stay small."""

ELEMENTS = 1 << 23
"""Lanes read at once outside contractions: 64 MB as int64."""


class TooLargeError(Exception):
    """So many iterations at once would need too much memory; fewer are tried."""


class Axes:
    """Axes of loops and lanes in arrays. replicas: lockstep levels with more than one instance, outermost first.

    nested: how deep loops nest, loops: with the lockstep levels.
    extents: the size of each of those axes when no loop runs. names, temps: how many of them a frame holds.
    """

    def __init__(self, machine: Machine, semantics: ir.Semantics, names: Collection[str]) -> None:
        self.replicas = tuple(level for level in replica_levels(machine) if level.count > 1)
        self.nested = depth_of(semantics.body)
        self.loops = self.nested + len(self.replicas)
        self.extents = (*(1,) * self.nested, *(level.count for level in self.replicas))
        self.names, self.temps = len(names), len(semantics.temps)
        self.lanes = tuple(semantics.lanes)
        self.lane_extents = tuple(semantics.lanes.values())

    def loop_shape(self, axis: int, size: int) -> tuple[int, ...]:
        """The shape of an array that depends on one loop axis."""
        return tuple(size if i == axis else 1 for i in range(self.loops))

    def lane_shape(self, names: tuple[str, ...]) -> tuple[int, ...]:
        """The lane axes of data that depends on these lanes."""
        return tuple(extent if lane in names else 1 for lane, extent in zip(self.lanes, self.lane_extents, strict=True))

    def lane_axis(self, name: str) -> int:
        """The axis of a lane, counted from the end: data may lack the loop axes."""
        return self.lanes.index(name) - len(self.lanes)

    def lift(self, value: Value) -> Value:
        """A scalar as data."""
        return value if value.__class__ is int else value.reshape(value.shape + (1,) * len(self.lanes))


def depth_of(body: tuple[ir.Stmt, ...]) -> int:
    """How deep loops nest."""
    depth = 0
    for stmt in body:
        match stmt:
            case ir.For(body=inner):
                depth = max(depth, 1 + depth_of(inner))
            case ir.If(then=then, other=other):
                depth = max(depth, depth_of(then), depth_of(other))
            case _:
                pass
    return depth


class Frame:
    """One executing instruction.

    fields: values in the order of the instruction's fields. places: the index at each topology level. names, temps: by slot.
    mask: bool scalar, the iterations that take part; None is all. lazy: bool data, the lanes whose value is wanted; None is all.
    keys: the address phase's keys in memory (memory.Keys); None while loops are split. extents: size of each loop axis
    in use, else 1. times[d]: when, counted over the outer d loops, the current iterations run.
    recorder: notes the steps, if they are wanted. memo: results of a recorded step's address phase, else None.
    """

    __slots__ = (
        "extents", "fields", "keys", "lazy", "mask", "memo", "names", "places", "recorder", "session", "stream", "temps", "times", "transaction",
    )  # fmt: skip

    def __init__(self, session: ProgramSession, axes: Axes, stream: int, fields: tuple[int, ...], places: Mapping[str, Value]) -> None:
        self.session, self.stream, self.fields, self.places = session, stream, fields, places
        self.keys: list[int | None] | None = None
        self.names: list[Value] = [None] * axes.names
        self.temps: list[Value] = [None] * axes.temps
        self.mask: Value = None
        self.lazy: Value = None
        self.extents = list(axes.extents)
        self.times: list[Value] = [0] * (axes.loops + 1)
        self.transaction: Transaction | None = None
        self.recorder: Recorder | None = None
        self.memo: dict[int, Value] | None = None

    def snapshot(self) -> "Frame":
        """The frame as it is, with a memo of its own; temporaries are shared."""
        other = Frame.__new__(Frame)
        other.session, other.stream, other.fields, other.places = self.session, self.stream, self.fields, self.places
        other.keys, other.names, other.temps = self.keys, self.names.copy(), self.temps
        other.mask, other.lazy, other.extents = self.mask, self.lazy, self.extents.copy()
        other.times, other.transaction, other.recorder, other.memo = self.times, self.transaction, None, {}
        return other

    def fault(self, code: str, message: str) -> UserError:
        """An error of the executing instruction."""
        return fail(code, message, place=self.session.label())

    def taking_part(self, condition: Value) -> Value:
        """The mask of the iterations that also meet a bool array."""
        return condition if self.mask is None else self.mask & condition


Run = Callable[[Frame], Value]
"""An expression or statement turned into a function."""


MOST_STEPS = 256
"""An instruction of more steps is not kept: it gains little, and takes room."""


@dataclass(slots=True)
class Part:
    """Steps whose iterations run together: (action, frame, whether it writes). Writes wait until the last step."""

    steps: list[tuple[Callable[[Frame], None], Frame, bool]] = field(default_factory=list[tuple[Callable[[Frame], None], Frame, bool]])

    @property
    def at_once(self) -> bool:
        """Whether nothing is read after something was written, so that no write needs to wait."""
        return not any(writes for _, _, writes in self.steps[:-1])


class Recorder:
    """The steps of one execution. full: it did too much to be kept."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.count = 0

    @property
    def full(self) -> bool:
        """Whether it is more than is kept."""
        return self.count > MOST_STEPS

    def begin(self) -> None:
        """Begins a part, whose iterations run together."""
        self.parts.append(Part())

    def undo(self) -> None:
        """Drops the part that began last: it failed before any write."""
        self.count -= len(self.parts.pop().steps)

    def step(self, action: Callable[[Frame], None], frame: Frame, writes: bool) -> None:
        """A step in the part that began last, or a part of its own where iterations do not run together."""
        if frame.transaction is None:
            self.parts.append(Part())
        self.parts[-1].steps.append((action, frame, writes))
        self.count += 1
