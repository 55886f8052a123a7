"""Numbers of an operation that the machine's arithmetic bounds: its section `quantisation` says so once, for all kernels."""

from collections.abc import Iterator, Mapping

from toolchain.operations.kind import OperationKind
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.spec.model import Machine
from toolchain.spec.model.quantisation import Numerics, Range
from toolchain.spec.reasons import Why, refuse


def check_numbers(machine: Machine, kernel: Kernel, kind: OperationKind, numbers: Mapping[str, int]) -> None:
    """Raises UserError E1003 for a number that the machine's arithmetic leaves out."""
    numerics = machine.quantisation
    if numerics is None:
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
