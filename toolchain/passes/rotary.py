"""Recognise rotary positions: pairs of channels of every head turned by angles of their row, as exporters spell them.

Two spellings, x [batch, heads, rows, channels] or rows before heads. By parts, a and b the first and the second of each pair:
a * cos - b * sin beside b * cos + a * sin. Of the whole, with tables that name each angle twice: x * cos + swapped * sin, where `swapped`
are the pairs as -b and a. A pair stands in both halves of the turned channels or side by side; channels behind them may stay.
Source: arXiv 2104.09864.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import onnx_ir as ir

from toolchain.graph.rewrite import integer, is_operator, known_shape, sliced
from toolchain.passes.rotary_tables import AXES, STEP, is_doubled


@dataclass(frozen=True)
class Rotary:
    """x: of four axes, its last one the channels of a head. cos, sin: tables that broadcast to it; of each angle once, or twice where `doubled`.
    half: pairs of a head. taken: the nodes, each before those that it reads.
    """

    x: ir.Value
    cos: ir.Value
    sin: ir.Value
    half: int
    interleaved: bool
    doubled: bool
    taken: tuple[ir.Node, ...]

    @property
    def result(self) -> ir.Value:
        return self.taken[0].outputs[0]


@dataclass(frozen=True)
class _Piece:
    """Some channels of a tensor."""

    source: ir.Value
    channels: range
    node: ir.Node


@dataclass(frozen=True)
class _Pairs:
    """Two tensors of `half` channels that were joined as the pairs of one."""

    first: ir.Value
    second: ir.Value
    interleaved: bool
    taken: tuple[ir.Node, ...]


def find_rotary(node: ir.Node) -> Rotary | None:
    """The rotary positions whose last node this is; None for any other node."""
    found = _by_parts(node) or _of_whole(node) or _in_front(node)
    return found if found is not None and _closed(found.taken) else None


def _closed(taken: Sequence[ir.Node]) -> bool:
    """Whether nothing else reads what these nodes make, but for the first one's result."""
    readers = (user for node in taken[1:] for value in node.outputs for user, _ in value.uses())
    return all(user in taken for user in readers) and not any(value.is_graph_output() for node in taken[1:] for value in node.outputs)


def _in_front(node: ir.Node) -> Rotary | None:
    """Turned channels, and others behind them that stay."""
    if not _joins(node, AXES) or not (maker := _maker(node.inputs[0])):
        return None
    turned, rest = _by_parts(maker) or _of_whole(maker), _piece(node.inputs[1])
    front = _piece(turned.x) if turned is not None else None
    if turned is None or front is None or rest is None or front.source is not rest.source:
        return None
    width = (known_shape(front.source) or (0,))[-1]
    if (front.channels, rest.channels) != (range(2 * turned.half), range(2 * turned.half, width)):
        return None
    return replace(turned, x=front.source, taken=(node, *turned.taken, *dict.fromkeys((front.node, rest.node))))


def _by_parts(node: ir.Node) -> Rotary | None:
    pairs = _pairs(node)
    if pairs is None or not (low := _maker(pairs.first, "Sub")) or not (high := _maker(pairs.second, "Add")):
        return None
    kept, taken = _maker(low.inputs[0], "Mul"), _maker(low.inputs[1], "Mul")
    if kept is None or taken is None:
        return None
    for a, cos in _orders(kept):
        for b, sin in _orders(taken):
            products = [_products(each) for each in _orders(high)]
            nodes = next((each for each in products if _are(each, (b, cos), (a, sin))), None)
            found = _parts(a, b, pairs.interleaved)
            if nodes is not None and found is not None:
                x, pieces = found
                return _whole(Rotary(x, cos, sin, 0, pairs.interleaved, False, (*pairs.taken, low, high, kept, taken, *nodes, *pieces)))
    return None


def _of_whole(node: ir.Node) -> Rotary | None:
    products = _products(tuple(node.inputs)) if is_operator(node, "Add") else None
    if products is None:
        return None
    for one, other in (products, products[::-1]):
        for x, cos in _orders(one):
            for swapped, sin in _orders(other):
                pairs = _pairs(maker) if (maker := _maker(swapped)) else None
                negative = _maker(pairs.first, "Neg") if pairs else None
                found = _parts(pairs.second, negative.inputs[0], pairs.interleaved) if pairs and negative else None
                if pairs and negative and found is not None and found[0] is x:
                    return _whole(Rotary(x, cos, sin, 0, pairs.interleaved, True, (node, *products, *pairs.taken, negative, *found[1])))
    return None


def _whole(found: Rotary) -> Rotary | None:
    """With the number of pairs, where tables name as many angles."""
    shape, sizes = known_shape(found.x) or (), [(known_shape(table) or (0,))[-1] for table in (found.cos, found.sin)]
    if len(shape) != AXES or shape[-1] % 2:
        return None
    half = shape[-1] // 2
    if sizes != [shape[-1] if found.doubled else half] * 2:
        return None
    if found.doubled and not (is_doubled(found.cos, found.interleaved) and is_doubled(found.sin, found.interleaved)):
        return None
    return replace(found, half=half)


def _parts(first: ir.Value | None, second: ir.Value | None, interleaved: bool) -> tuple[ir.Value, tuple[ir.Node, ...]] | None:
    """The tensor of whose pairs these are all the first and all the second channels, and the nodes that cut it."""
    a, b = _piece(first), _piece(second)
    if a is None or b is None or a.source is not b.source:
        return None
    width = (known_shape(a.source) or (0,))[-1]
    wanted = (range(0, width, STEP), range(1, width, STEP)) if interleaved else (range(width // 2), range(width // 2, width))
    return (a.source, tuple(dict.fromkeys((a.node, b.node)))) if (a.channels, b.channels) == wanted else None


def _pairs(node: ir.Node) -> _Pairs | None:
    """Two tensors behind each other in the last axis, or stacked and made one axis."""
    if _joins(node, AXES):
        first, second = node.inputs
        return _Pairs(first, second, False, (node,)) if first is not None and second is not None else None
    stack = _maker(node.inputs[0]) if is_operator(node, "Reshape") else None
    if stack is None or not _joins(stack, AXES + 1):
        return None
    spread = [_maker(value, "Unsqueeze") for value in stack.inputs]
    sources = [each.inputs[0] if each is not None else None for each in spread]
    shapes, made = {known_shape(value) for value in sources}, known_shape(node.outputs[0])
    first, second = sources
    if first is None or second is None or len(shapes) != 1 or made != (*(known_shape(first) or (0,))[:-1], (known_shape(first) or (0,))[-1] * 2):
        return None
    if any(known_shape(value) != (*(known_shape(first) or ()), 1) for value in stack.inputs):
        return None
    return _Pairs(first, second, True, (node, stack, *(each for each in spread if each is not None)))


def _joins(node: ir.Node, axes: int) -> bool:
    """Whether this is a Concat of two tensors along the last of so many axes."""
    joined = is_operator(node, "Concat") and len(node.inputs) == 2 and len(known_shape(node.outputs[0]) or ()) == axes
    return joined and integer(node, "axis", 0) % axes == axes - 1


def _piece(value: ir.Value | None) -> _Piece | None:
    """The channels that a Slice or a Split along the last axis takes."""
    node = value.producer() if value is not None else None
    if value is None or node is None or not is_operator(node, "Slice", "Split") or (source := node.inputs[0]) is None:
        return None
    before, after = known_shape(source), known_shape(value)
    if before is None or after is None or before[:-1] != after[:-1]:
        return None
    if is_operator(node, "Slice"):
        found = sliced(node)
        return _Piece(source, found[1], node) if found and found[0] == len(before) - 1 and found[1].step > 0 else None
    sizes = [(known_shape(each) or (0,))[-1] for each in node.outputs]
    first = sum(sizes[: list(node.outputs).index(value)])
    along = integer(node, "axis", 0) % len(before) == len(before) - 1
    return _Piece(source, range(first, first + after[-1]), node) if along else None


def _maker(value: ir.Value | None, *kinds: str) -> ir.Node | None:
    """The operator that makes a tensor, of one of these kinds where there are any."""
    node = value.producer() if value is not None else None
    return node if node is not None and (not kinds or is_operator(node, *kinds)) else None


def _orders(node: ir.Node) -> Iterator[tuple[ir.Value, ir.Value]]:
    """The operands of a sum or product in both orders."""
    one, other = node.inputs
    if one is not None and other is not None:
        yield from ((one, other), (other, one))


def _products(terms: Sequence[ir.Value | None]) -> tuple[ir.Node, ir.Node] | None:
    """The products that two terms are."""
    one, other = (_maker(term, "Mul") for term in terms)
    return (one, other) if one is not None and other is not None else None


def _are(products: tuple[ir.Node, ir.Node] | None, *wanted: tuple[ir.Value, ir.Value]) -> bool:
    """Whether products are those of the wanted factors, one by one."""
    return products is not None and all(any(each == factors for each in _orders(node)) for node, factors in zip(products, wanted, strict=True))
