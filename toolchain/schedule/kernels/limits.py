"""Numbers that a kernel cannot do: numerics of its machine that it does not use, numbers of an operation out of their bounds, and values that the
fields of a step's instructions do not hold, found before anything is emitted."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from toolchain.operations.ending import by_channel
from toolchain.operations.kind import OperationKind
from toolchain.schedule.kernels.frame import Frame
from toolchain.schedule.kernels.kernel import Formula, Issue, Item, Items, Kernel, Tensor, formulas
from toolchain.schedule.sandbox import template_names
from toolchain.spec.arrays import Ints
from toolchain.spec.errors import Span, fail
from toolchain.spec.expr import Expr, Name, walk
from toolchain.spec.model import Field, Machine
from toolchain.spec.model.quantisation import Numerics, Range
from toolchain.spec.reason import Reason
from toolchain.spec.reasons import Why, refuse

CHANNELS = {"multiplier": ("multipliers", "shifts"), "float32": ("scales",)}
WHOLE = {"multiplier": ("multiplier", "shift"), "float32": ("scale_bits",), "power_of_two": ()}


def check_numerics(machine: Machine, kernel: Kernel, kind: OperationKind) -> None:
    """Raises UserError E1009 for a part of the section `quantisation` that the kernel leaves out, and for activations that a tensor cannot hold.
    A kernel that takes no operation in this configuration of its machine is not looked at."""
    numerics = machine.quantisation
    if numerics is None or kernel.shut:
        return
    for tensor in kernel.tensors:
        if tensor.values is None:
            _check_stored(machine, kernel, tensor, numerics)
    needed = list(_needed(kind, numerics))
    named = _named(kernel) if needed else frozenset[str]()
    for names, reason in needed:
        if not named & set(names):
            raise fail("E1009", f"kernel '{kernel.name}' does not use {' or '.join(map(repr, names))}: {reason}", kernel.span)


def _check_stored(machine: Machine, kernel: Kernel, tensor: Tensor, numerics: Numerics) -> None:
    layout = next(item for item in machine.layouts if item.name == tensor.layout)
    held, low, high = layout.type or machine.view[tensor.view].element.scalar, numerics.activation.low, numerics.activation.high
    if numerics.floats is not None:
        if str(held) != numerics.floats.format:
            text = f"kernel '{kernel.name}' stores '{tensor.name}' as {held}, and the machine computes in {numerics.floats.format}"
            raise fail("E1009", text, kernel.span, f"see the type of layout '{layout.name}'")
        return
    if low < held.low or high > held.high:
        text = f"kernel '{kernel.name}' stores '{tensor.name}' as {held}, which does not hold activations from {low} to {high}"
        raise fail("E1009", text, kernel.span, f"see the type of layout '{layout.name}'")


def _needed(kind: OperationKind, numerics: Numerics) -> Iterator[tuple[tuple[str, ...], str]]:
    """Names of which a kernel of the operation uses at least one, and why."""
    if not kind.scaled or numerics.floats is not None:
        return
    if by_channel(kind, numerics) and numerics.form == "power_of_two":
        yield ("shifts", "shift_least"), "each channel may have a shift of its own; a kernel for one shift requires shift_least == shift"
    elif by_channel(kind, numerics):
        yield from (((name,), f"with scale: {numerics.form}, each channel has its own") for name in CHANNELS[numerics.form])
    elif kind.form != "aligned":
        yield from (((name, f"{name}s"), f"the machine has scale: {numerics.form}") for name in WHOLE[numerics.form])
    if numerics.zero_points:
        for name in kind.zeros:
            folded = ("folded",) if kind.bias and name == f"zero_{kind.data[0]}" else ()
            yield (name, *folded), "the machine has zero points"


def _named(kernel: Kernel) -> frozenset[str]:
    """Every name in the kernel's expressions, instructions and templates."""
    codes = [step.code for step in kernel.steps]
    written = frozenset[str]().union(*(template_names(kernel.folder, code)[0] for code in codes if isinstance(code, str)))
    written = written.union(*(formula.names for code in codes if not isinstance(code, str) for formula in formulas(code)))
    return written | {e.id for expr in _expressions(kernel) for e in walk(expr) if isinstance(e, Name)}


def _expressions(kernel: Kernel) -> Iterator[Expr]:
    """The expressions whose values reach the machine, and those that say which operations do."""
    yield from kernel.let.values()
    yield from (condition.that for condition in kernel.requires)
    for tensor in kernel.tensors:
        yield from tensor.let.values()
        if tensor.values is not None:
            yield tensor.values
    for constant in kernel.constants:
        yield from constant.fields.values()
    for place in kernel.places:
        yield from place.names.values()
    if kernel.call is not None:
        yield from (value for value in kernel.call.arguments.values() if not isinstance(value, str))


def check_numbers(machine: Machine, kernel: Kernel, kind: OperationKind, numbers: Mapping[str, int]) -> None:
    """Raises UserError E1003 for a number that the machine's arithmetic leaves out."""
    numerics = machine.quantisation
    if numerics is None or numerics.floats is not None:
        return
    moved = min(numbers.get("bias_zeros", 0), numerics.bias_shift.high)
    stored = {**numbers, **{name: numbers[name] >> moved for name in ("bias_least", "bias_most") if name in numbers}}
    for name, told, held in _limits(numerics, kind):
        if name in stored and not held.holds(stored[name]):
            reason = Why.NUMBER(kernel=kernel.name, number=told, value=stored[name], low=held.low, high=held.high)
            raise refuse("E1003", reason, kernel.span, "see 'quantisation' of the machine")


def _limits(numerics: Numerics, kind: OperationKind) -> Iterator[tuple[str, str, Range]]:
    """(number, its name for readers, range)"""
    yield "shift", "the shift", numerics.shift
    yield "low", "the least result", numerics.activation
    yield "high", "the largest result", numerics.activation
    yield "bias_least", "the least stored bias", numerics.bias
    yield "bias_most", "the largest stored bias", numerics.bias
    if kind.form == "average":
        most = 1 << numerics.average.bits - 1
        yield "multiply", "the multiplier", Range(-most, most - 1)
    if kind.form == "aligned":
        most = 1 << numerics.align.high
        yield from ((f"multiply_{term.operand}", f"the multiplier of '{term.operand}'", Range(-most, most)) for term in kind.terms)


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
