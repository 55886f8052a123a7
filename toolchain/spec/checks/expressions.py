"""Checks of expressions about instructions: conditions, routing and timing name only what is there."""

import itertools
import math
from collections.abc import Iterator

from toolchain.spec.checks.scope import Scope, problems, scope_of
from toolchain.spec.errors import Diagnostic, Span, UserError
from toolchain.spec.evaluate import FUNCTIONS, constant
from toolchain.spec.expr import Choose, Expr, Name, walk
from toolchain.spec.model import Instruction, Machine, TimingClass
from toolchain.spec.suggest import nearest
from toolchain.spec.yaml_nodes import Node

MAX_ROUTES = 1 << 8


def check_expressions(machine: Machine, root: Node) -> Iterator[Diagnostic]:
    """E0107 unknown names, E0123 arguments, E0129 routing outside the units, E0141 timing of a field that is not there."""
    places = frozenset(level.name for level in machine.levels)
    told: set[Span | None] = set()
    for instruction in machine.instructions:
        scope = scope_of(machine, instruction)
        for rule in instruction.constraints:
            yield from problems(rule.that, scope)
        yield from _routing(machine, instruction, scope, root)
        timing = [d for d in _timing(machine, instruction, root) if d.span not in told]
        told |= {d.span for d in timing}
        yield from timing
    for name, rule in machine.portable:
        yield from problems(rule.that, scope_of(machine, machine.instruction[name]))
    for rule in machine.sync:
        written = [part for part in rule.expressions if part.span]
        for name in rule.instructions if written else ():
            scope = scope_of(machine, machine.instruction[name], more=places)
            for part in written:
                yield from problems(part, scope)


def _routing(machine: Machine, instruction: Instruction, scope: Scope, root: Node) -> Iterator[Diagnostic]:
    units = [u.name for u in machine.units]
    loose = [leaf for leaf in _results(instruction.unit) if isinstance(leaf, Name) and leaf.id not in scope.names]
    yield from (Diagnostic("E0107", f"unknown unit '{leaf.id}'", leaf.span, nearest(leaf.id, units)) for leaf in loose)
    wrong = [d for d in problems(instruction.unit, scope) if all(d.span != leaf.span for leaf in loose)]
    yield from wrong
    if not wrong and not loose:
        yield from _routes(machine, instruction, root.at(("instructions", instruction.name, "unit")))


def _results(expr: Expr) -> Iterator[Expr]:
    """The possible results of a routing expression, conditions left out."""
    if isinstance(expr, Choose):
        yield from itertools.chain(_results(expr.then), _results(expr.other))
    else:
        yield expr


def _routes(machine: Machine, instruction: Instruction, node: Node) -> Iterator[Diagnostic]:
    used = [f for f in instruction.fields if any(isinstance(e, Name) and e.id == f.name for e in walk(instruction.unit))]
    if math.prod(1 << f.bits for f in used) > MAX_ROUTES:
        yield Diagnostic("E0129", f"routing over {sum(f.bits for f in used)} bits of fields cannot be checked", node.span)
        return
    for values in itertools.product(*(range(f.low, f.high + 1) for f in used)):
        given = {f.name: v for f, v in zip(used, values, strict=True)}
        if not _allowed(instruction, given):
            continue
        route = constant(instruction.unit, given)
        if not 0 <= route < len(machine.units):
            where = ", ".join(f"{name} = {value}" for name, value in given.items()) or "always"
            yield Diagnostic("E0129", f"the unit's number is {route} ({where}); there are {len(machine.units)} units", node.span)
            return


def _allowed(instruction: Instruction, given: dict[str, int]) -> bool:
    """Whether no constraint over just these fields forbids their values."""
    for rule in instruction.constraints:
        if {e.id for e in walk(rule.that) if isinstance(e, Name)} <= {*given, *FUNCTIONS}:
            try:
                if not constant(rule.that, given):
                    return False
            except UserError:
                continue
    return True


def _timing(machine: Machine, instruction: Instruction, root: Node) -> Iterator[Diagnostic]:
    node = root.at(("instructions", instruction.name, "timing"))
    classes = {c.name: c for c in machine.timing.classes}
    if instruction.timing not in classes:
        yield Diagnostic("E0107", f"unknown timing class '{instruction.timing}'", node.span, nearest(instruction.timing, classes))
        return
    kind = classes[instruction.timing]
    own = frozenset(f.name for f in instruction.fields)
    others = frozenset(f.name for i in machine.instructions for f in i.fields) - own
    scope = scope_of(machine, instruction, footprint=True, more=others)
    for part in _parts(kind):
        yield from problems(part, scope)
        for leaf in walk(part):
            if isinstance(leaf, Name) and leaf.id in others:
                yield Diagnostic("E0141", f"class '{kind.name}' uses field '{leaf.id}', which {instruction.name} does not have", leaf.span)


def _parts(kind: TimingClass) -> Iterator[Expr]:
    yield from (kind.cycles, kind.setup, kind.latency)
    yield from (t.bytes for t in kind.transfers)
