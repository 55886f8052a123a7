"""A machine that takes other times for everything, and whose clock, peak and fields that count are as they were."""

from dataclasses import replace

from toolchain.spec.expr import Binary, Const, Expr
from toolchain.spec.model import Machine, TimingClass


def slower(machine: Machine) -> Machine:
    """Every number of its timing is another one."""
    timing = machine.timing
    constants = tuple(replace(c, value=3 * c.value + 7) for c in timing.constants)
    resources = tuple(replace(r, bytes_per_cycle=r.bytes_per_cycle + 5, per=r.per + 2) for r in timing.resources)
    return replace(machine, timing=replace(timing, constants=constants, resources=resources, classes=tuple(map(_slower, timing.classes))))


def _slower(found: TimingClass) -> TimingClass:
    transfers = tuple(replace(t, bytes=_more(t.bytes)) for t in found.transfers)
    return replace(found, cycles=_more(found.cycles), setup=_more(found.setup), latency=_more(found.latency), transfers=transfers)


def _more(expr: Expr) -> Expr:
    return Binary("+", Binary("*", expr, Const(3)), Const(11))
