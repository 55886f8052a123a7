"""Section layouts: index maps (`n c -> n, c // 16, c % 16`) from host tensors to stored arrays."""

import re
from collections.abc import Collection

from toolchain.spec.context import Context, Scope, problems
from toolchain.spec.errors import UserError, fail
from toolchain.spec.expr import Expr, Index, Name, parse_expr
from toolchain.spec.model import Copies, Layout
from toolchain.spec.model.types import parse_scalar
from toolchain.spec.sections.conventions import quantity
from toolchain.spec.yaml_nodes import Node, gather


def read_map(node: Node) -> tuple[tuple[str, ...], tuple[Expr, ...]]:
    """The names before the arrow and the expressions behind it. Raises UserError E0112 for names that are none or repeat."""
    head, _, body = str(node.value).partition("->")
    names = tuple(head.split())
    if not names or len(set(names)) != len(names) or not all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", n) for n in names):
        raise fail("E0112", "a map reads 'name name -> expression', each name once", node.span)
    lead = len(body) - len(body.lstrip())
    start = len(head) + len("->") + lead - len("_[")
    whole = parse_expr(f"_[{body.strip()}]", lambda line, column: node.locate(line, column + start))
    if not isinstance(whole, Index) or whole.base != Name("_"):
        raise fail("E0112", "a map reads 'name name -> expression'", node.span)
    return names, whole.index


def layouts(context: Context) -> tuple[Layout, ...]:
    """Raises UserError E0112 for names that do not fit, E0135 for an element with two sources or outside the shape, E0136
    for a missing or wrong way back, E0145 for an index that is a parameter."""
    return tuple(gather(lambda item: _layout(context, *item), context.root.members("layouts")))


def _layout(context: Context, name: str, node: Node) -> Layout:
    from toolchain.spec.sections.layout_proof import check_layout  # needs numpy, so only where a machine has layouts

    domain = {index: str(extent.value) for index, extent in node.members("domain")}
    _check_names(context, domain, node)
    names, body = read_map(node.value["map"])
    copies = tuple(Copies(index, int(count.value)) for index, count in node.members("copies"))
    indices = (*domain, *(each.name for each in copies))
    if names != indices:
        text = f"the map's names are not the domain's{' and those of copies' * bool(copies)}: {' '.join(indices)}"
        raise fail("E0112", text, node.value["map"].span)
    stored, back = read_map(node.value["inverse"]) if node.get("inverse") else ((), ())
    extents = tuple(domain.values())
    kind, rate = node.get("type"), node.get("gb_per_s")
    layout = Layout(
        name, tuple(domain), extents, _resolved(context, body, {*names, *extents}), _resolved(context, _shape(context, node), extents), stored,
        _resolved(context, back, {*stored, *extents}), parse_scalar(kind.value, context.names, kind.locate) if kind else None,
        node.flag("written"), quantity(rate) if rate else None, node.text("doc"), copies, node.key_span,
    )  # fmt: skip
    check_layout(layout, node)
    return layout


def _shape(context: Context, node: Node) -> tuple[Expr, ...]:
    return tuple(context.parse(n) for n in node.entries("shape"))


def _check_names(context: Context, domain: dict[str, str], node: Node) -> None:
    used: set[str] = set(context.names)
    for index, extent in node.members("domain"):
        for name, span in ((index, extent.key_span), (domain[index], extent.span)):
            if name in used:
                raise fail("E0145", f"the name '{name}' is taken", span, "indices, extents and parameters need names of their own")
            used.add(name)
    for index, count in node.members("copies"):
        if index in used:
            raise fail("E0145", f"the name '{index}' is taken", count.key_span, "indices, extents and parameters need names of their own")
        used.add(index)


def _resolved(context: Context, body: tuple[Expr, ...], names: Collection[str]) -> tuple[Expr, ...]:
    """The expressions with parameters in place, using no other names than these."""
    ready = tuple(context.resolve(e) for e in body)
    scope = Scope(frozenset(names))
    found = [d for e in ready for d in problems(e, scope)]
    if found:
        raise UserError(*found)
    return ready
