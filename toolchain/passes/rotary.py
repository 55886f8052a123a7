"""Recognise rotary positions: pairs of channels of every head turned by angles of their row, as exporters spell them; and make their tables, [tables,
rows, pairs], once for all layers.

Two spellings, x [batch, heads, rows, channels] or rows before heads. By parts, a and b the first and the second of each pair: a * cos - b * sin
beside b * cos + a * sin. Of the whole, with tables that name each angle twice: x * cos + swapped * sin, where `swapped` are the pairs as -b and a. A
pair stands in both halves of the turned channels or side by side; channels behind them may stay. Source: arXiv 2104.09864.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import onnx_ir as ir

from toolchain.graph.rewrite import add_constant, constant, fresh_name, integer, ints, is_operator, known_shape, reshape_node, sliced
from toolchain.spec.arrays import Array

EACH = ("Cos", "Sin", "Cast", "Neg", "Identity", "Unsqueeze", "Squeeze", "Reshape", "Expand", "Slice", "Transpose")
"""Operators of one tensor that leave channels as they stand, where their last axis keeps its extent."""
PAIRS = ("Mul", "Add", "Sub", "Div")
AXES = 4
"""The axes of heads of a sequence: batch, heads, rows and channels, in one order or another."""
SMALL = 64
"""Elements of constants that count by their numbers, such as axes."""
STEP = 2
"""From a channel of a pair that stands side by side to the same channel of the next pair."""


def is_doubled(value: ir.Value | None, interleaved: bool) -> bool:
    """Whether the last axis has every number twice: side by side, or as two equal halves."""
    array, width = constant(value), (known_shape(value) or (0,))[-1]
    if array is not None:
        return array.ndim > 0 and width % 2 == 0 and _is_repeated(array, interleaved)
    node = value.producer() if value is not None else None
    if node is None or width < STEP:
        return False
    sources = [each for each in node.inputs if each is not None]
    if is_operator(node, "Concat"):
        return not interleaved and len(sources) == STEP and sources[0] is sources[1] and _along_last(node)
    if is_operator(node, *PAIRS):
        return all(_is_number(each) or is_doubled(each, interleaved) for each in sources)
    if is_operator(node, "Gather"):
        rank = len(known_shape(sources[0]) or ())
        return rank > 1 and integer(node, "axis", 0) % rank != rank - 1 and is_doubled(sources[0], interleaved)
    if is_operator(node, "Reshape") and _stacked(sources[0], width) is not None:
        return interleaved
    return is_operator(node, *EACH) and _keeps(node, width) and is_doubled(sources[0], interleaved)


def _is_repeated(array: Array, interleaved: bool) -> bool:
    one, other = (array[..., ::STEP], array[..., 1::STEP]) if interleaved else np.split(array, 2, -1)
    return np.array_equal(one, other)


def _along_last(node: ir.Node) -> bool:
    rank = len(known_shape(node.outputs[0]) or (0,))
    return integer(node, "axis", 0) % rank == rank - 1


def _is_number(value: ir.Value) -> bool:
    """Whether this is one number for all channels."""
    return (known_shape(value) or (1,))[-1] == 1


def _stacked(value: ir.Value, width: int) -> ir.Value | None:
    """The tensor [..., pairs] that was stacked with itself as [..., pairs, 2]; None for any other."""
    node, shape = value.producer(), known_shape(value) or (0,)
    if node is None or not is_operator(node, "Concat") or shape[-2:] != (width // STEP, STEP) or not _along_last(node):
        return None
    spread = [each.producer() if each is not None else None for each in node.inputs]
    sources = [each.inputs[0] if each is not None and is_operator(each, "Unsqueeze") else None for each in spread]
    return sources[0] if len(sources) == STEP and sources[0] is sources[1] and known_shape(sources[0]) == shape[:-1] else None


def _keeps(node: ir.Node, width: int) -> bool:
    """Whether the channels stand as they stood. A Reshape that keeps the last extent does, and a Slice that does took other axes."""
    before = known_shape(node.inputs[0]) or (0,)
    if is_operator(node, "Transpose"):
        return ints(node, "perm", ())[-1:] == (len(before) - 1,)
    return before[-1] == width


@dataclass(frozen=True)
class Tables:
    """Tables of one graph. made: by the tensor that a spelling reads and the form that it has there. once: by a tensor that has every number twice.
    first: by a tensor, the first that the same operators make of the same ones, as each layer has those of its own."""

    graph: ir.Graph
    made: dict[tuple[ir.Value, tuple[int, ...], bool], ir.Value] = field(default_factory=dict[tuple[ir.Value, tuple[int, ...], bool], ir.Value])
    once: dict[ir.Value, ir.Value] = field(default_factory=dict[ir.Value, ir.Value])
    first: dict[ir.Value, ir.Value] = field(default_factory=dict[ir.Value, ir.Value])

    def __post_init__(self) -> None:
        self.first.update(_first_alike(self.graph))

    def of(self, value: ir.Value, shape: tuple[int, ...], interleaved: bool) -> ir.Value:
        """Each angle once, [tables, rows, pairs]: the tensor that the host makes. shape: of that one."""
        value = self.first.get(value, value)
        key = (value, shape, interleaved)
        if key not in self.made:
            array = constant(value)
            self.made[key] = self._of_constant(value, array, shape, interleaved) if array is not None else self._of_computed(*key)
        return self.made[key]

    def _of_constant(self, value: ir.Value, array: Array, shape: tuple[int, ...], interleaved: bool) -> ir.Value:
        """The host hands it over with the inputs, as an operand of the machine's is computed."""
        once = array.reshape(*shape[:-1], -1)
        once = once if once.shape == shape else once[..., ::STEP] if interleaved else once[..., : shape[-1]]
        known = (each for each in self.graph if is_operator(each, "Reshape") and known_shape(each.outputs[0]) == shape)
        rows = np.ascontiguousarray(once).reshape(-1, shape[-1])
        for each in known:
            if (other := constant(each.inputs[0])) is not None and other.dtype == rows.dtype and np.array_equal(other, rows):
                return each.outputs[0]
        node = reshape_node(self.graph, add_constant(self.graph, f"{value.name}.angles", rows), shape, f"{value.name}.table")
        node.outputs[0].type = value.type
        self.graph.insert_before(self.graph[0], node)
        return node.outputs[0]

    def _of_computed(self, value: ir.Value, shape: tuple[int, ...], interleaved: bool) -> ir.Value:
        once = value if (known_shape(value) or (0,))[-1] == shape[-1] else self._once(value, interleaved)
        if known_shape(once) == shape:
            return once
        made = reshape_node(self.graph, once, shape, f"{value.name}.table")
        self._insert(made, once)
        return made.outputs[0]

    def _insert(self, made: ir.Node, behind: ir.Value) -> None:
        maker = behind.producer()
        if maker is None:
            self.graph.insert_before(self.graph[0], made)
        else:
            self.graph.insert_after(maker, made)

    def _once(self, value: ir.Value, interleaved: bool) -> ir.Value:
        """A doubled tensor with every number once: what made it, made of numbers that were not doubled yet."""
        array, node = constant(value), value.producer()
        if array is not None:
            once = array[..., ::STEP] if interleaved else np.split(array, 2, -1)[0]
            return add_constant(self.graph, f"{value.name}.once", np.ascontiguousarray(once))
        assert node is not None
        first = node.inputs[0]
        assert first is not None
        if is_operator(node, "Concat"):
            return first
        if is_operator(node, "Reshape") and (single := _stacked(first, (known_shape(value) or (0,))[-1])) is not None:
            return single
        if value not in self.once:
            self.once[value] = self._again(node, value, interleaved)
        return self.once[value]

    def _again(self, node: ir.Node, value: ir.Value, interleaved: bool) -> ir.Value:
        """The result of the same operator on operands with every number once."""
        operands, shape = list(node.inputs), (*(known_shape(value) or ())[:-1], (known_shape(value) or (0,))[-1] // STEP)
        for number in range(len(operands) if is_operator(node, *PAIRS) else 1):
            operand = operands[number]
            if operand is not None and not _is_number(operand):
                operands[number] = self._once(operand, interleaved)
        if is_operator(node, "Reshape", "Expand"):
            operands[1] = add_constant(self.graph, f"{value.name}.once.sizes", np.array(shape, np.int64))
        name = fresh_name(self.graph, f"{value.name}.once")
        made = ir.Node(node.domain, node.op_type, operands, node.attributes.values(), num_outputs=1, name=name)
        result = made.outputs[0]
        result.name, result.shape, result.type = name, ir.Shape(shape), value.type
        self.graph.insert_after(node, made)
        return result


def _first_alike(graph: ir.Graph) -> dict[ir.Value, ir.Value]:
    """For each tensor that tables are made by, the first in the graph that is the same."""
    first, found = dict[ir.Value, ir.Value](), dict[tuple[object, ...], ir.Value]()
    for node in graph:
        if is_operator(node, "Gather", "Concat", *EACH, *PAIRS) and len(node.outputs) == 1:
            attributes = sorted((name, str(each.value)) for name, each in node.attributes.items())
            key = (node.op_type, *map(str, attributes), *(_named(value, first) for value in node.inputs))
            first[node.outputs[0]] = found.setdefault(key, node.outputs[0])
    return first


def _named(value: ir.Value | None, first: Mapping[ir.Value, ir.Value]) -> object:
    """A tensor, or a small constant by its numbers."""
    array = constant(value)
    if value is None or array is None or array.size > SMALL:
        return value if value is None else first.get(value, value)
    return (str(array.dtype), array.shape, array.tobytes())


def table_shape(value: ir.Value, batch: int, rows: int, half: int, by_heads: bool) -> tuple[int, int, int] | None:
    """[tables, rows, pairs] of a table that broadcasts to heads; None where heads, or single channels, have tables of their own."""
    shape = known_shape(value) or ()
    before = (1,) * (AXES - len(shape)) + shape
    heads, length = (before[1], before[2]) if by_heads else (before[2], before[1])
    fits = len(before) == AXES and heads == 1 and length == rows and before[0] in (1, batch)
    return (before[0], rows, half) if fits else None


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
