"""Instructions as data: those that a step of a kernel issues, field by field, with loops and conditions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from toolchain.spec.errors import Span
from toolchain.spec.expr import Expr


@dataclass(frozen=True, slots=True)
class Formula:
    """An expression and the names in it."""

    expr: Expr
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Issue:
    """One instruction. fields: those that are said; all of them where registers hold them, `latches`. unit: the queue that it goes to.

    limited: fields whose values follow from sizes alone, so that they limit the size of a tile.
    """

    instruction: str
    fields: Mapping[str, Formula]
    unit: str
    latches: tuple[str, ...]
    limited: tuple[str, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Item:
    """An instruction or items, once for each point of `loops` (counts by variable, the first one slowest) at which `when` holds.

    let: names for the items below, each from those before it; of a call, its arguments, all from the names outside.
    varying: the loop variables on which the cost of one round depends. limited: all names that limited fields below depend on.
    """

    loops: Mapping[str, Formula]
    let: Mapping[str, Formula]
    when: Formula | None
    body: "Issue | tuple[Item, ...]"
    call: bool
    varying: frozenset[str]
    limited: frozenset[str]


Items = tuple[Item, ...]
Code = str | Items
"""How instructions are written: a template's name, or items."""


def issues(items: Items) -> tuple[Issue, ...]:
    """Every instruction that the items can issue, as written."""
    return tuple(issue for item in items for issue in ((item.body,) if isinstance(item.body, Issue) else issues(item.body)))


def formulas(items: Items) -> Iterator[Formula]:
    """Every expression of the items."""
    for item in items:
        yield from (*item.loops.values(), *item.let.values(), *((item.when,) if item.when else ()))
        yield from item.body.fields.values() if isinstance(item.body, Issue) else formulas(item.body)
