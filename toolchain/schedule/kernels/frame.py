"""The names of many tiles at once: a value is one number for all rows, or a column."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from toolchain.isa.columns import Leaf, Value, evaluate_rows, plain
from toolchain.schedule.kernels.kernel import Formula, Issue, Item, Items
from toolchain.spec.arrays import Ints
from toolchain.spec.errors import fail
from toolchain.spec.expr import Const, Expr, Name

MOST_ROWS = 1 << 24
"""Rounds of one loop over all tiles."""

NO_ROWS: Ints = np.empty(0, np.int64)


@dataclass
class Frame:
    """count: rows. find: the value of a name that stands outside. names: known values. formulas: names that are evaluated when they are asked for,
    each in its frame. evaluate: as `evaluate_rows`, for a reader of the frame who looks at the parts of expressions as well."""

    count: int
    find: Callable[[str], Value]
    names: dict[str, Value] = field(default_factory=dict[str, Value])
    formulas: "dict[str, tuple[Formula, Frame]]" = field(default_factory=dict[str, "tuple[Formula, Frame]"])
    evaluate: Callable[[Expr, Leaf, int], Value] = evaluate_rows

    def __getitem__(self, name: str) -> Value:
        if name not in self.names:
            formula = self.formulas.get(name)
            self.names[name] = formula[1].value(formula[0]) if formula else self.find(name)
        return self.names[name]

    def value(self, formula: Formula) -> Value:
        """One number or int64 [count]. Raises UserError E0122 for an expression without a value."""
        expr = formula.expr
        if isinstance(expr, Const):  # half of all formulas, and names
            return expr.value
        if isinstance(expr, Name):
            return plain(self[expr.id])
        return self.evaluate(expr, self._leaf, self.count)

    def column(self, formula: Formula) -> Ints:
        """int64 [count]"""
        return np.broadcast_to(np.asarray(self.value(formula), np.int64), (self.count,))

    def where(self, condition: Value) -> "tuple[Frame, Ints | None]":
        """The rows for which a condition holds, and which they are; None for all of them. condition: one number, or one for each row."""
        if not isinstance(condition, int):
            rows = np.flatnonzero(condition)
            return (self.inner(), None) if len(rows) == self.count else (self.take(rows), rows)
        return (self.inner(), None) if condition else (self.take(NO_ROWS), NO_ROWS)

    def take(self, rows: Ints) -> "Frame":
        """These rows; one may come several times."""

        def find(name: str) -> Value:
            found = self[name]
            return found if isinstance(found, int) else found[rows]

        return Frame(len(rows), find, evaluate=self.evaluate)

    def inner(self) -> "Frame":
        """These rows with more names."""
        return Frame(self.count, self.__getitem__, evaluate=self.evaluate)

    def latch(self, issue: Issue, where: "Frame") -> None:
        """From here on `REGISTER.FIELD` is the issued instruction's field. where: its frame, of the same rows."""
        for register in issue.latches:
            for name, formula in issue.fields.items():
                self.names.pop(f"{register}.{name}", None)
                self.formulas[f"{register}.{name}"] = formula, where

    def _leaf(self, expr: Expr, rows: Ints | None) -> Value:
        if not isinstance(expr, Name):
            raise fail("E0121", "this is not allowed here", expr.span)
        found = self[expr.id]
        return found if rows is None or isinstance(found, int) else found[rows]


@dataclass(frozen=True)
class Inside:
    """An item inside its loops and condition. of: the outer row of each of the frame's, ascending; None where they are the same.

    rounds: how many equal rounds each row stands for.
    """

    item: Item
    frame: Frame
    of: Ints | None
    rounds: Value


def enter(items: Items, frame: Frame, once: bool = False) -> Iterator[Inside]:
    """The items that apply to some row, in order. once: rounds that cost the same are one row.

    Raises UserError E0330 for a loop without end, E0122.
    """
    for item in items:
        found = _enter(item, frame, once)
        if found is not None:
            yield found
            if isinstance(item.body, Issue) and item.body.latches and found.of is None:
                frame.latch(item.body, found.frame)


def _enter(item: Item, frame: Frame, once: bool) -> Inside | None:
    of: Ints | None = None
    rounds: Value = 1
    for name, count in item.loops.items():
        if once and name not in item.varying:
            times = np.maximum(frame.value(count), 0)
            rounds, frame = rounds * (times if np.ndim(times) else int(times)), frame.inner()
            frame.names[name] = 0
        else:
            rows, value = _unroll(name, frame.column(count))
            of, rounds, frame = _pick(of, rows), _rows(rounds, rows), frame.take(rows)
            frame.names[name] = value
    if item.let:
        frame = _bound(frame, item.let, item.call)
    met = 1 if item.when is None else frame.value(item.when)
    rows = np.flatnonzero(met) if np.ndim(met) else None
    if rows is not None and len(rows) < frame.count:
        of, rounds, frame = _pick(of, rows), _rows(rounds, rows), frame.take(rows)
    return Inside(item, frame, of, rounds) if frame.count and (rows is not None or met) else None


def _pick(of: Ints | None, rows: Ints) -> Ints:
    return rows if of is None else of[rows]


def _rows(value: Value, rows: Ints) -> Value:
    return value if isinstance(value, int) else value[rows]


def _bound(frame: Frame, let: Mapping[str, Formula], call: bool) -> Frame:
    """More names, evaluated when they are asked for."""
    inner = frame.inner()
    for name, formula in let.items():
        if call:
            inner.formulas[name] = formula, frame
        else:
            inner.names[name] = inner.value(formula)
    return inner


def _unroll(name: str, counts: Ints) -> tuple[Ints, Ints]:
    """(row, value of the variable) of every round."""
    counts = np.maximum(counts, 0)
    total = int(counts.sum())
    if total > MOST_ROWS:
        raise fail("E0330", f"a step's loop over '{name}' has {total} rounds in all, more than {MOST_ROWS}")
    rows = np.repeat(np.arange(len(counts)), counts)
    return rows, np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
