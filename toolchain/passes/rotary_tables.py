"""Tables of rotary positions: whether they name each angle twice, and as tensors [tables, rows, pairs], made once for all layers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from toolchain.graph.rewrite import add_constant, constant, fresh_name, integer, ints, is_operator, known_shape, reshape_node
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
