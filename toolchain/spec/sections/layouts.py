"""Section layouts: index maps (`n c -> n, c // 16, c % 16`) from host tensors to stored arrays, proved on sample extents: each host element has
its own place inside the shape, and the way back finds it."""

import itertools
import math
import re
from collections.abc import Collection, Iterator, Mapping

import numpy as np

from toolchain.spec.arrays import Ints, evaluate_arrays
from toolchain.spec.context import Context, Scope, problems
from toolchain.spec.errors import UserError, fail
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Binary, Const, Expr, Index, Name, parse_expr, walk
from toolchain.spec.model import Copies, Layout
from toolchain.spec.model.types import parse_scalar
from toolchain.spec.sections.conventions import quantity
from toolchain.spec.yaml_nodes import Node, gather

MAX_ELEMENTS = 1 << 18
MAX_PLACES = 1 << 21
"""The most places of all elements of a sample and their copies."""
LARGEST_BLOCK = 128


def check_layout(layout: Layout, node: Node) -> None:
    """Raises UserError E0135 for two elements in one place or one outside the shape, E0136 for the way back, E0139 for a shape."""
    if layout.written and not layout.inverse:
        raise fail("E0136", "the machine writes this layout, so it needs an 'inverse'", node.value["written"].where())
    if layout.written and layout.copies:
        raise fail("E0136", "the machine writes this layout, so each element stands in one place", node.value["copies"].where())
    if len(layout.map) != len(layout.shape):
        raise fail("E0135", f"the map gives {len(layout.map)} indices, the shape has {len(layout.shape)}", node.value["shape"].span)
    if layout.inverse and (len(layout.inverse), len(layout.stored)) != (len(layout.domain), len(layout.map)):
        text = f"the inverse leads from {len(layout.stored)} to {len(layout.inverse)} indices, not from {len(layout.map)} to {len(layout.domain)}"
        raise fail("E0136", text, node.value["inverse"].span)
    for extents in samples(layout):
        _check_sample(layout, extents, node)


def samples(layout: Layout) -> Iterator[tuple[int, ...]]:
    """Extents to try: all small, then each pair of axes past two blocks and not a multiple of one."""
    sizes = [size for part in (*layout.map, *layout.shape) for e in walk(part) for size in _sizes(e)]
    block = max((s for s in sizes if s <= LARGEST_BLOCK), default=2)
    axes, most = range(len(layout.domain)), min(MAX_ELEMENTS, MAX_PLACES // math.prod(copies.count for copies in layout.copies))
    yield tuple(3 for _ in axes)
    for pair in itertools.combinations_with_replacement(axes, 2):
        wide = [tuple(2 * block + 1 if axis in pair else rest for axis in axes) for rest in (2, 1)]
        yield from [extents for extents in wide if math.prod(extents) <= most][:1]


def _sizes(e: Expr) -> tuple[int, ...]:
    """The size of a block that a node of a map may mean: a constant, one more for a mask, two to the power of a shift."""
    match e:
        case Binary(op="&", right=Const(value=mask)):
            return (mask + 1,)
        case Binary(op="<<" | ">>", right=Const(value=bits)) if 0 <= bits < LARGEST_BLOCK.bit_length():
            return (1 << bits,)
        case Const(value=value):
            return (value,)
        case _:
            return ()


def _check_sample(layout: Layout, extents: tuple[int, ...], node: Node) -> None:
    sizes = dict(zip(layout.extents, extents, strict=True))
    where = ", ".join(f"{name} = {size}" for name, size in sizes.items())
    shape = [constant(e, sizes) for e in layout.shape]
    if any(not 1 <= s <= 1 << 30 for s in shape):
        raise fail("E0139", f"the stored array would be {shape} where {where}", node.value["shape"].span)
    grid = [part.ravel() for part in np.indices((*extents, *(copies.count for copies in layout.copies)), dtype=np.int64)]
    index = dict(zip((*layout.domain, *(copies.name for copies in layout.copies)), grid, strict=True))
    stored = [evaluate_arrays(e, {**index, **_spread(sizes, grid[0])}) for e in layout.map]
    flat = np.zeros_like(grid[0])
    for part, size in zip(stored, shape, strict=True):
        outside = np.flatnonzero((part < 0) | (part >= size))
        if len(outside):
            text = f"the element at {_place(index, int(outside[0]))} is stored outside {shape} where {where}"
            raise fail("E0135", text, node.value["map"].span)
        flat = flat * size + part
    _check_unique(flat, index, where, node)
    if layout.inverse:
        _check_inverse(layout, stored, index, sizes, where, node)


def _check_unique(flat: Ints, index: Mapping[str, Ints], where: str, node: Node) -> None:
    order = np.argsort(flat, kind="stable")
    same = np.flatnonzero(np.diff(flat[order]) == 0)
    if len(same):
        one, two = (_place(index, int(order[same[0] + i])) for i in (0, 1))
        raise fail("E0135", f"the elements at {one} and {two} are stored in one place where {where}", node.value["map"].span)


def _check_inverse(layout: Layout, stored: list[Ints], index: Mapping[str, Ints], sizes: Mapping[str, int], where: str, node: Node) -> None:
    names = {**dict(zip(layout.stored, stored, strict=True)), **_spread(sizes, stored[0])}
    for axis, back in zip(layout.domain, layout.inverse, strict=True):
        wrong = np.flatnonzero(evaluate_arrays(back, names) != index[axis])
        if len(wrong):
            text = f"the inverse does not lead back to {_place(index, int(wrong[0]))} where {where}"
            raise fail("E0136", text, node.value["inverse"].span)


def _spread(sizes: Mapping[str, int], like: Ints) -> dict[str, Ints]:
    return {name: np.full_like(like, size) for name, size in sizes.items()}


def _place(index: Mapping[str, Ints], row: int) -> str:
    return ", ".join(f"{name} = {int(values[row])}" for name, values in index.items())


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
        _resolved(context, back, {*stored, *extents}), parse_scalar(kind.value, context.names, kind.locate, floats=True) if kind else None,
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
