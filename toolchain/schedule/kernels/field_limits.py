"""Values that the fields of a step's instructions do not hold, found before anything is emitted."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from toolchain.schedule.kernels.frame import Frame
from toolchain.schedule.kernels.kernel import Formula, Issue, Item, Items
from toolchain.spec.arrays import Ints
from toolchain.spec.errors import Span
from toolchain.spec.model import Field, Machine
from toolchain.spec.reason import Reason
from toolchain.spec.reasons import Why


@dataclass(frozen=True)
class Fault:
    """rows: those for which a field does not hold its value. value: that of the first one."""

    rows: Ints
    instruction: str
    field: Field
    value: int
    span: Span | None

    @property
    def reason(self) -> Reason:
        return Why.OUT_OF_RANGE(instruction=self.instruction, field=self.field.name, value=self.value, low=self.field.low, high=self.field.high)


@dataclass(frozen=True)
class Known:
    """A frame, and the names in it whose values are known. settled: those of them that were known before: fields that depend on them alone were
    looked at then."""

    frame: Frame
    names: frozenset[str]
    settled: frozenset[str] = frozenset()

    def knows(self, formula: Formula) -> bool:
        return formula.names <= self.names


def faults(machine: Machine, items: Items, known: Known, rows: Ints) -> Iterator[Fault]:
    """Fields with expressions over known names that do not hold their values. rows: the numbers by which messages call the frame's rows.

    Loops are looked at in their first and last round, nothing below a condition that is not known.
    """
    for item in items:
        for inside, chosen in _entered(item, known):
            at = rows if chosen is None else rows[chosen]
            if not inside.frame.count:
                continue
            if isinstance(item.body, Issue):
                yield from _issue_faults(machine, item.body, inside, at)
            else:
                yield from faults(machine, item.body, inside, at)


def _entered(item: Item, known: Known) -> Iterator[tuple[Known, Ints | None]]:
    """The item at the first and the last round of its loops, as far as they are known; nowhere where its condition is not."""
    rounds: list[tuple[Known, Ints | None]] = [(known, None)] if item.limited else []
    for name, count in item.loops.items():
        rounds = [each for inside, chosen in rounds for each in _ends(inside, chosen, name, count, name in item.limited)]
    for inside, chosen in rounds:
        bound = _bound(inside, item)
        if item.when is not None:
            if not bound.knows(item.when):
                continue
            frame, met = bound.frame.where(bound.frame.value(item.when))
            settled = bound.settled if item.when.names <= bound.settled else frozenset[str]()
            bound, chosen = replace(bound, frame=frame, settled=settled), _within(chosen, met)
        yield bound, chosen


def _ends(known: Known, chosen: Ints | None, name: str, count: Formula, swept: bool) -> Iterator[tuple[Known, Ints | None]]:
    if not known.knows(count):
        yield known, chosen
        return
    counts = known.frame.value(count)
    settled = known.settled | {name} if count.names <= known.settled else known.settled - {name}
    for least, last in ((0, 0), (1, 1)) if swept else ((0, 0),):
        frame, rows = known.frame.where(counts > least)
        frame.names[name] = last * ((counts if rows is None or isinstance(counts, int) else counts[rows]) - 1)
        yield Known(frame, known.names | {name}, settled), _within(chosen, rows)


def _within(outer: Ints | None, inner: Ints | None) -> Ints | None:
    """Rows among rows; None for all."""
    return inner if outer is None else outer if inner is None else outer[inner]


def _bound(known: Known, item: Item) -> Known:
    if not item.let:
        return known
    frame, names, settled = known.frame.inner(), known.names - item.let.keys(), known.settled - item.let.keys()
    for name, formula in item.let.items():
        if formula.names <= (known.names if item.call else names):
            frame.formulas[name] = formula, known.frame if item.call else frame
            names |= {name}
            if formula.names <= (known.settled if item.call else settled):
                settled |= {name}
    return Known(frame, names, settled)


def _issue_faults(machine: Machine, issue: Issue, known: Known, rows: Ints) -> Iterator[Fault]:
    instruction = machine.instruction[issue.instruction]
    for name in issue.limited:
        formula = issue.fields[name]
        if known.knows(formula) and not formula.names <= known.settled:
            value, described = known.frame.value(formula), instruction.field(name)
            if isinstance(value, int) and described.low <= value <= described.high:
                continue
            wrong = np.broadcast_to((np.asarray(value) < described.low) | (np.asarray(value) > described.high), (known.frame.count,))
            if wrong.any():
                found = np.flatnonzero(wrong)
                seen = value if isinstance(value, int) else int(value[found[0]])
                yield Fault(rows[found], instruction.name, described, seen, formula.expr.span)
