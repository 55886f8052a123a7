"""An operation's description as text: what was said, and what follows from it."""

from collections.abc import Iterator, Mapping

from toolchain.operations.kind import OperationKind
from toolchain.operations.library import Kinds
from toolchain.operations.ways import reachable
from toolchain.spec.expr import Expr
from toolchain.spec.render import unparse

FORMS = {
    "move": "moves elements; operands and result share a scale",
    "select": "chooses among elements; operands and result share a scale",
    "average": "a mean: a sum by a fraction, requantised",
    "aligned": "a sum of operands, each by a multiplier of its own so that their scales meet, requantised",
    "weighted": "products with known weights, requantised",
    "computed": "products of computed tensors, requantised",
    "table": "a table of 256 stored values",
    "real": "computed in floating point",
    "opaque": "no index expression says it",
}
"""How stored integers take part."""


def operation_lines(kind: OperationKind, kinds: Kinds) -> Iterator[str]:
    """The whole description."""
    yield f"{kind.name}: {kind.doc}"
    yield ""
    for each in (*kind.operands, kind.result):
        axes = ", ".join(f"{index}: {extent}" for index, extent in each.axes.items())
        yield f"  {each.name:8} [{axes}]  {each.role}"
    yield f"  {'':8} {_meaning(kind)}"
    yield ""
    yield f"form      {FORMS[kind.form]}"
    yield f"parallel  {', '.join(kind.result.axes)}"
    yield f"reduced   {', '.join(kind.meaning.over) or 'no axis'}"
    yield f"in place  {', '.join(kind.in_place) or 'over no operand'}"
    yield f"pads      {'zeros before it can become its own padding' if kind.pads and kind.meaning.outside == 'zero' else 'none of its own'}"
    yield f"ways      {', '.join(sorted(reachable(kind, kinds) - {kind.name})) or 'none but itself'}"
    yield f"numbers   {', '.join(kind.numbers)}"
    yield f"arrays    {', '.join(kind.arrays) or 'none'}"


def _meaning(kind: OperationKind) -> str:
    meaning = kind.meaning
    if meaning.join:
        return f"y = the tensors of {meaning.join} side by side"
    if meaning.stages:
        return "; ".join(f"{each.name}[{', '.join(each.axes)}] = {_reduced(each.reduction, each.over, each.of)}" for each in meaning.stages)
    if meaning.of is None:
        return "y = what no index expression says"
    outside = f", {'zero' if meaning.outside == 'zero' else 'less than all'} outside" if meaning.outside else ""
    start = f" + {kind.bias}[{', '.join(kind.operand[kind.bias].axes)}]" if kind.bias else ""
    return f"y[{', '.join(kind.result.axes)}] = {_reduced(meaning.reduction, meaning.over, meaning.of)}{start}{outside}"


def _reduced(reduction: str, over: Mapping[str, str], of: Expr) -> str:
    return f"{reduction} over {', '.join(over)} of {unparse(of)}" if reduction else unparse(of)


def operation_list(kinds: Kinds, made: frozenset[str] | None) -> Iterator[str]:
    """One line an operation. made: those that a machine has kernels for, None without a machine."""
    width = max(map(len, kinds))
    for kind in kinds.values():
        where = "" if made is None else f"{_where(kind, kinds, made):22} "
        yield f"{kind.name:{width}}  {where}{kind.doc.split('. ')[0].rstrip('.')}"


def _where(kind: OperationKind, kinds: Kinds, made: frozenset[str]) -> str:
    if kind.name in made:
        return "kernel"
    others = sorted(reachable(kind, kinds) & made) or _instead(kind, kinds, made)
    return f"as {others[0]}" if others else "in place" if kind.placed or kind.viewed else "in its neighbour" if kind.absorbed else "host"


def _instead(kind: OperationKind, kinds: Kinds, made: frozenset[str]) -> list[str]:
    """Explain an operation that no model holds by itself, such as `depthwise`: its callers and their other ways."""
    if kind.binds:
        return []
    return sorted({name for other in kinds.values() if kind.name in (ways := reachable(other, kinds)) for name in ways & made})
