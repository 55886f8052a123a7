"""A machine's numerics and its kernels: a kernel uses all of them, or it computes something else; and the numbers of an operation stay in
their bounds."""

from collections.abc import Iterator, Mapping

from toolchain.operations.ending import by_channel
from toolchain.operations.kind import OperationKind
from toolchain.schedule.kernels.kernel import Kernel, Tensor, formulas
from toolchain.schedule.sandbox import template_names
from toolchain.spec.errors import fail
from toolchain.spec.expr import Expr, Name, walk
from toolchain.spec.model import Machine
from toolchain.spec.model.quantisation import Numerics, Range
from toolchain.spec.model.types import F16
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
        if held != F16:
            text = f"kernel '{kernel.name}' stores '{tensor.name}' as {held}, and the machine computes in f16"
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
