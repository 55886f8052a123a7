"""Evaluates resolved scalar expressions over many instructions of one kind, and over the iterations of their loops."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from toolchain.isa.columns import evaluate_columns
from toolchain.isa.footprint.footprints import BUDGET, LONGEST, Faults
from toolchain.isa.footprint.loop_nest import Exists, scheduled
from toolchain.isa.footprint.walk import Fold, Guard, Loop, Path, free_vars
from toolchain.isa.program import Ints, Program, stream_index
from toolchain.isa.semantics import ir
from toolchain.spec import expr as ex
from toolchain.spec.expr import Expr

Flags = NDArray[np.bool_]
LIMIT = 1 << 20
"""Rows of one frame, so that the arrays stay within a few tens of megabytes."""

Registers = Callable[[ir.RegisterRead, Ints, Ints], Ints]
"""(read, instructions, index) -> values"""

Controls = Callable[[ir.ControlRead, "Iterations"], Ints]
"""(read, iterations) -> values"""


@dataclass(frozen=True)
class Rows:
    """All instructions of one kind. instructions: their indices in the program, by row."""

    program: Program
    kind: int
    instructions: Ints
    registers: Registers
    controls: Controls
    cache: dict[Expr, Ints] = field(default_factory=dict[Expr, Ints])

    def frame(self, rows: Ints | None = None) -> "Iterations":
        """A frame of these rows, or of all, with no loop open."""
        return Iterations(self, np.arange(len(self.instructions)) if rows is None else rows, {})

    def column(self, e: Expr) -> Ints:
        """int64 [rows]: an expression without loop variables, kept."""
        if e not in self.cache:
            self.cache[e] = self.frame().evaluate(e)
        return self.cache[e]


@dataclass(frozen=True)
class Iterations:
    """Iterations of instructions: row of the instruction, value of each loop variable, how many iterations each stands for."""

    of: Rows
    rows: Ints
    variables: Mapping[str, Ints]
    weight: Ints | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def instructions(self) -> Ints:
        return self.of.instructions[self.rows]

    def take(self, chosen: Ints) -> "Iterations":
        """The chosen iterations; a number may be chosen several times."""
        weight = None if self.weight is None else self.weight[chosen]
        return Iterations(self.of, self.rows[chosen], {n: v[chosen] for n, v in self.variables.items()}, weight)

    def with_variable(self, name: str, value: Ints) -> "Iterations":
        return Iterations(self.of, self.rows, {**self.variables, name: value}, self.weight)

    def weighted(self, factor: Ints) -> "Iterations":
        return Iterations(self.of, self.rows, self.variables, factor if self.weight is None else self.weight * factor)

    def evaluate(self, e: Expr) -> Ints:
        """int64 [len]: the value of an expression in every iteration. Raises UserError E0122 where it has none."""
        return evaluate_columns(e, self._leaf, len(self), lambda row: self.of.program.label(int(self.instructions[row])))

    def where(self, condition: Expr) -> "Iterations":
        """The iterations that meet a condition."""
        met = self.evaluate(condition) != 0
        return self if met.all() else self.take(np.flatnonzero(met))

    def _leaf(self, e: Expr, chosen: Ints | None) -> Ints | int:
        rows = self.rows if chosen is None else self.rows[chosen]
        match e:
            case ir.FieldRef(name=name):
                return self.of.program.columns[self.of.kind][name][rows]
            case ir.Var(name=name):
                return self.variables[name] if chosen is None else self.variables[name][chosen]
            case ir.Place(level=level):
                return stream_index(self.of.program.machine, level, self.of.program.stream[self.of.instructions[rows]])
            case ir.RegisterRead(index=index) if not free_vars(e) and len(rows):
                return self._invariant(e, index, rows)
            case _:
                return (self if chosen is None else self.take(chosen))._compound(e)

    def _invariant(self, e: ir.RegisterRead, index: Expr, rows: Ints) -> Ints:
        """A register that does not depend on loops is read once for each instruction in the frame."""
        if isinstance(index, ex.Const):
            if e not in self.of.cache:
                everything = self.of.frame()
                self.of.cache[e] = self.of.registers(e, everything.instructions, everything.evaluate(index))
            return self.of.cache[e][rows]
        alone, back = np.unique(rows, return_inverse=True)
        frame = self.of.frame(alone)
        return self.of.registers(e, frame.instructions, frame.evaluate(index))[back]

    def _compound(self, e: Expr) -> Ints:
        match e:
            case ir.RegisterRead(index=index):
                return self.of.registers(e, self.instructions, self.evaluate(index))
            case ir.ControlRead():
                return self.of.controls(e, self)
            case ir.Extreme(op=op, values=values):
                parts = [self.evaluate(v) for v in values]
                return (np.minimum if op == "min" else np.maximum).reduce(parts)
            case Fold():
                return self._fold(e)
            case Exists(loops=loops, conditions=conditions):
                return self._exists(scheduled(list(loops), list(conditions)))
            case _:
                raise TypeError(e)

    def _fold(self, e: Fold) -> Ints:
        start, stop = self.evaluate(e.start), self.evaluate(e.stop)
        values = [self.evaluate(i) for i in e.inits]
        for step in range(int((stop - start).max(initial=0))):
            running = np.flatnonzero(start + step < stop)
            frame = self.take(running).with_variable(e.var, start[running] + step)
            for name, value in zip(e.names, values, strict=True):
                frame = frame.with_variable(name, value[running])
            new = [frame.evaluate(u) for u in e.updates]
            values = [v.copy() for v in values]
            for value, now in zip(values, new, strict=True):
                value[running] = now
        return values[e.names.index(e.name)]

    def _exists(self, path: Path) -> Ints:
        found = np.zeros(len(self), np.int64)
        for frame in iterations(self.with_variable("", np.arange(len(self))), path):
            found[frame.variables[""]] = 1
        return found


def iterations(frame: Iterations, path: Path) -> Iterator[Iterations]:
    """Every iteration of the loops that meets the guards, at most LIMIT in a frame, in the order of the nest.

    A loop whose step is zero is taken once, with its count as weight.
    """
    if not len(frame):
        return
    if not path:
        yield frame
    elif isinstance(head := path[0], Guard):
        yield from iterations(frame.where(head.condition), path[1:])
    else:
        start, stop = frame.evaluate(head.start), frame.evaluate(head.stop)
        counts = np.maximum(stop - start, 0)
        if head.step is not None:
            still = frame.evaluate(head.step) == 0
            frame = frame.weighted(np.where(still, np.maximum(counts, 1), 1)) if still.any() else frame
            counts = np.where(still, np.minimum(counts, 1), counts)
        for chosen, value in _spread(start, counts):
            yield from iterations(frame.take(chosen).with_variable(head.var, value), path[1:])


def iteration_count(frame: Iterations, path: Path, neighbours: Callable[[Ints], Flags]) -> NDArray[np.float64]:
    """How many iterations the loops of a path have whose bounds no loop changes. A loop that does not step counts once,
    and so does the last one where its step goes from neighbour to neighbour."""
    total = np.ones(len(frame), np.float64)
    for loop in (item for item in path if isinstance(item, Loop)):
        if not (free_vars(loop.start) | free_vars(loop.stop)):
            count = np.maximum(frame.evaluate(loop.stop) - frame.evaluate(loop.start), 0)
            if loop.step is not None and not free_vars(loop.step):
                step = np.abs(frame.evaluate(loop.step))
                once = (step == 0) | neighbours(step) if loop is path[-1] else step == 0
                count = np.where(once, np.minimum(count, 1), count)
            total *= count
    return total


def split_long(frame: Iterations, total: NDArray[np.float64], access: int) -> tuple[Iterations, Faults]:
    """The rows with at most LONGEST iterations, and the others as faults of an access."""
    many = np.flatnonzero(total > LONGEST)
    amount = np.minimum(total[many], float(1 << 62)).astype(np.int64)
    faults = Faults(frame.instructions[many], np.full(len(many), access), np.full(len(many), BUDGET), amount, amount)
    return (frame if not len(many) else frame.take(np.flatnonzero(total <= LONGEST))), faults


def _spread(start: Ints, counts: Ints) -> Iterator[tuple[Ints, Ints]]:
    """(row, value) for value in [start, start + count) of every row, at most LIMIT pairs at a time."""
    ends = np.cumsum(counts)
    first = 0
    while first < len(counts):
        before = int(ends[first - 1]) if first else 0
        last = max(int(np.searchsorted(ends, before + LIMIT, "right")), first + 1)
        part = counts[first:last]
        if last == first + 1 and part[0] > LIMIT:
            for low in range(0, int(part[0]), LIMIT):
                values = np.arange(low, min(low + LIMIT, int(part[0]))) + start[first]
                yield np.full(len(values), first), values
        else:
            chosen = np.repeat(np.arange(first, last), part)
            yield chosen, np.arange(len(chosen)) - (ends[chosen] - counts[chosen] - before) + start[chosen]
        first = last
