"""Conditions of a kernel that came out one way only, or not at all, in all programs of a check: its gaps."""

from collections.abc import Iterator
from dataclasses import dataclass

from toolchain.schedule.kernels.kernel import Formula, Issue, Item, Items, Kernel
from toolchain.schedule.tiling.tile_table import codes_of
from toolchain.spec.errors import Span
from toolchain.spec.evaluate import OPERATORS
from toolchain.spec.expr import Choose, Compare, Const, Expr, Logic, walk
from toolchain.spec.render import unparse
from toolchain.verify.situations import MARKS, NEAR, Seen, names_in, problem_expressions


@dataclass(frozen=True)
class Unmet:
    """A condition as it is written. never: `held`, `failed` or `looked at`."""

    text: str
    never: str
    span: Span | None


def unmet_conditions(kernel: Kernel, seen: Seen) -> tuple[Unmet, ...]:
    """Conditions in derived numbers, windows, tiles, steps, places and instructions that did not come out both ways, in the order of the file; those
    of `requires` always hold. A condition that several steps share is met where it is in one of them."""
    ways = dict[tuple[str, Span | None], set[bool]]()
    for expr, found in (*_written(kernel, seen), *_entered(kernel, seen)):
        ways.setdefault((unparse(expr), expr.span), set()).update(found)
    listed = sorted(ways.items(), key=lambda each: (each[0][1].line, each[0][1].column) if each[0][1] else (0, 0))
    return tuple(Unmet(text, _never(found), span) for (text, span), found in listed if len(found) < 2)


def _never(found: set[bool]) -> str:
    return "looked at" if not found else "failed" if True in found else "held"


def _written(kernel: Kernel, seen: Seen) -> Iterator[tuple[Expr, set[bool]]]:
    """Every condition inside an expression, with the ways in which it came out."""
    required = {id(require.that) for require in kernel.requires}
    for whole in _expressions(kernel):
        for expr in _conditions(whole) if id(whole) not in required else ():
            yield expr, _ways(expr, seen)


def _expressions(kernel: Kernel) -> Iterator[Expr]:
    yield from problem_expressions(kernel)
    for place in kernel.places:
        yield from (*place.names.values(), *(formula.expr for formula in place.starts.values()))
    for item in kernel.constants:
        yield from (*item.over.values(), *item.fields.values())
    for item in (item for code in codes_of(kernel) for item in items_below(code)):
        own = (*item.loops.values(), *item.let.values(), *([item.when] if item.when else []))
        yield from (formula.expr for formula in (*own, *_fields(item)))


def _fields(item: Item) -> tuple[Formula, ...]:
    return tuple(item.body.fields.values()) if isinstance(item.body, Issue) else ()


def items_below(items: Items) -> Iterator[Item]:
    """These items and all inside them."""
    for item in items:
        yield item
        yield from () if isinstance(item.body, Issue) else items_below(item.body)


def _conditions(whole: Expr) -> Iterator[Expr]:
    """Comparisons, and other numbers that a choice, `and` or `or` depends on."""
    for expr in walk(whole):
        if isinstance(expr, Compare) and names_in(expr):
            yield expr
        parts = (expr.condition,) if isinstance(expr, Choose) else expr.values if isinstance(expr, Logic) else ()
        yield from (part for part in parts if not isinstance(part, Compare | Logic | Const) and names_in(part))


def _ways(expr: Expr, seen: Seen) -> set[bool]:
    if isinstance(expr, Compare):
        near = [each for each in range(-NEAR, NEAR + 1) if any((id(expr), mark, each) in seen for mark in MARKS)]
        return {bool(OPERATORS[expr.op](each, 0)) for each in near}
    return {way for way in (False, True) if any((id(expr), mark, way) in seen for mark in MARKS)}


def _entered(kernel: Kernel, seen: Seen) -> Iterator[tuple[Expr, set[bool]]]:
    """Conditions of instructions that are a name by itself."""
    for item in (item for code in codes_of(kernel) for item in items_below(code)):
        if item.when is not None and not _has_parts(item.when.expr) and names_in(item.when.expr):
            yield item.when.expr, {way for way in (False, True) if any((id(item), mark, ("entered", way)) in seen for mark in MARKS)}


def _has_parts(expr: Expr) -> bool:
    return any(True for _ in _conditions(expr))
