"""Check that a kernel uses the machine's numerics: one that leaves out a multiplier or a zero point computes something else."""

from collections.abc import Iterator

from toolchain.operations.ending import by_channel
from toolchain.operations.kind import OperationKind
from toolchain.schedule.kernels.kernel import Kernel, Tensor
from toolchain.schedule.kernels.render import template_names
from toolchain.schedule.kernels.sequence import formulas
from toolchain.spec.errors import fail
from toolchain.spec.expr import Expr, Name, walk
from toolchain.spec.model import Machine
from toolchain.spec.model.quantisation import Numerics

CHANNELS = {"multiplier": ("multipliers", "shifts"), "float32": ("scales",)}
WHOLE = {"multiplier": ("multiplier", "shift"), "float32": ("scale_bits",), "power_of_two": ()}


def check_numerics(machine: Machine, kernel: Kernel, kind: OperationKind) -> None:
    """Raises UserError E1009 for a part of the section `quantisation` that the kernel leaves out, and for activations that a tensor cannot hold."""
    numerics = machine.quantisation
    if numerics is None:
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
    if low < held.low or high > held.high:
        text = f"kernel '{kernel.name}' stores '{tensor.name}' as {held}, which does not hold activations from {low} to {high}"
        raise fail("E1009", text, kernel.span, f"see the type of layout '{layout.name}'")


def _needed(kind: OperationKind, numerics: Numerics) -> Iterator[tuple[tuple[str, ...], str]]:
    """Names of which a kernel of the operation uses at least one, and why."""
    if not kind.scaled:
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
