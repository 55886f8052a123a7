"""Small steps that every rewriting pass is made of."""

from collections.abc import Container, Iterator, Sequence
from itertools import count
from typing import cast

import numpy as np
import onnx
import onnx_ir as ir

from toolchain.spec.arrays import Array

ONNX_DOMAINS = ("", "ai.onnx")
BY_HEADS, KEYS_LAST = (0, 2, 1, 3), (0, 2, 3, 1)
"""Axes of [batch, rows, heads, channels] with the heads before the rows, and with the rows last."""
GIVEN = "tilewright.given"
CACHED = 1 << 16
"""Elements that stay in the processor's cache while they are worked on."""
FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE)


def is_operator(node: ir.Node | onnx.NodeProto | None, *kinds: str) -> bool:
    """Whether a node is one of ONNX's own operators of these names."""
    return node is not None and node.domain in ONNX_DOMAINS and node.op_type in kinds


def constant(value: ir.Value | None) -> Array | None:
    """The values of an initializer, or None for anything else."""
    return None if value is None or value.const_value is None or not value.is_initializer() else value.const_value.numpy()


def known_shape(value: ir.Value | None) -> tuple[int, ...] | None:
    """The shape where it is fixed; None for a tensor whose shape depends on the data, and for no tensor."""
    if value is None or value.shape is None:
        return None
    sizes = tuple(size for size in value.shape.dims if isinstance(size, int))
    return sizes if len(sizes) == len(value.shape.dims) else None


def sliced(node: ir.Node) -> tuple[int, range] | None:
    """The axis along which a Slice of one axis cuts, from 0 on, and the elements that it keeps there; None for other nodes, and where constants
    do not say it."""
    shape, bounds = known_shape(node.inputs[0]) or (), [constant(value) for value in node.inputs[1:]]
    if not is_operator(node, "Slice") or not shape or any(array is None or array.size != 1 for array in bounds):
        return None
    start, stop, *more = (int(np.ravel(array)[0]) for array in bounds if array is not None)
    axis, step = (*more, *(0, 1)[len(more) :])
    return axis % len(shape), range(shape[axis])[start:stop:step]


def is_float(value: ir.Value | None) -> bool:
    """Whether this is a tensor of floating-point numbers, not a sequence of such tensors."""
    return value is not None and value.dtype in FLOATS and isinstance(value.type, ir.TensorType)


def captured(node: ir.Node) -> list[ir.Value]:
    """The tensors of the enclosing graph that the subgraphs of a node read."""
    inner = [graph for attribute in node.attributes.values() for graph in _graphs(attribute)]
    found: dict[ir.Value, None] = {}
    for graph in inner:
        own = {*graph.inputs, *graph.initializers.values(), *(value for part in graph for value in part.outputs)}
        read = [value for part in graph for value in (*part.inputs, *captured(part))] + list(graph.outputs)
        found.update(dict.fromkeys(value for value in read if value is not None and value not in own))
    return list(found)


def _graphs(attribute: ir.Attr) -> Sequence[ir.Graph]:
    if attribute.type == ir.AttributeType.GRAPH:
        return (attribute.as_graph(),)
    return tuple(attribute.as_graphs()) if attribute.type == ir.AttributeType.GRAPHS else ()


def shape_of(value: ir.Value) -> tuple[int, ...]:
    """The shape of a tensor that is known to have one. Raises ValueError for any other."""
    found = known_shape(value)
    if found is None:
        raise ValueError(f"the tensor '{value.name}' has no fixed shape")
    return found


def ints(node: ir.Node, name: str, default: Sequence[int]) -> tuple[int, ...]:
    """An attribute that is a list of integers."""
    found = node.attributes.get(name)
    return tuple(default) if found is None else tuple(found.as_ints())


def integer(node: ir.Node, name: str, default: int) -> int:
    found = node.attributes.get(name)
    return default if found is None else found.as_int()


def real(node: ir.Node, name: str, default: float) -> float:
    found = node.attributes.get(name)
    return default if found is None else found.as_float()


def text(node: ir.Node, name: str, default: str) -> str:
    found = node.attributes.get(name)
    return default if found is None else found.as_string()


def single_use(value: ir.Value) -> bool:
    """Whether exactly one node reads the tensor and it is no output of the graph."""
    return len(value.uses()) == 1 and not value.is_graph_output()


def keep_given_names(graph: ir.Graph) -> None:
    """Remembers how the model's own nodes and computed tensors are called, for as long as the graph is in memory; called again, those of a machine's
    integers too, which another machine's are added to."""
    names = {node.name or "" for node in graph} | {value.name or "" for node in graph for value in node.outputs}
    graph.meta[GIVEN] = frozenset(given_names(graph) | names | {value.name or "" for value in graph.inputs})


def given_names(graph: ir.Graph) -> frozenset[str]:
    """Names of the model as it was given: whatever is made later is called otherwise, as ONNX knows nodes and tensors by their names."""
    return cast("frozenset[str]", graph.meta.get(GIVEN, frozenset()))


def free_names(wanted: str, *taken: Container[str]) -> Iterator[str]:
    """`wanted`, `wanted.1` and so on without end, those that are not taken."""
    names = (f"{wanted}.{number}" if number else wanted for number in count())
    return (name for name in names if not any(name in each for each in taken))


def fresh_name(graph: ir.Graph, wanted: str) -> str:
    """`wanted`, or `wanted.1` and so on, whichever no initializer has yet, and nothing of the model as it was given."""
    return next(free_names(wanted, graph.initializers, given_names(graph)))


def add_constant(graph: ir.Graph, wanted: str, array: Array, instead: bool = False) -> ir.Value:
    """A new initializer. instead: of the tensor of that name, which goes."""
    name = next(free_names(wanted, graph.initializers)) if instead else fresh_name(graph, wanted)
    tensor = ir.Tensor(array, name=name)
    value = ir.Value(name=tensor.name, const_value=tensor, shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype))
    graph.register_initializer(value)
    return value


def typed_node(
    graph: ir.Graph,
    kind: str,
    inputs: Sequence[ir.Value],
    shape: Sequence[int],
    dtype: ir.TypeProtocol | None,
    name: str,
    **attributes: Sequence[int] | int,
) -> ir.Node:
    """A new node, not yet in the graph, whose one result is called as it is. name: as far as it is free."""
    made = ir.node(kind, list(inputs), attributes, name=fresh_name(graph, name), num_outputs=1)
    result = made.outputs[0]
    result.name, result.shape, result.type = made.name, ir.Shape(shape), dtype
    return made


def reshape_node(graph: ir.Graph, value: ir.Value, size: Sequence[int], name: str) -> ir.Node:
    """A Reshape, not yet in the graph, and its sizes as a constant."""
    sizes = add_constant(graph, f"{name}.sizes", np.array(size, np.int64))
    return typed_node(graph, "Reshape", [value, sizes], size, value.type, name)


def row_blocks(array: Array) -> Iterator[slice]:
    """Some rows of an array at a time, of at most CACHED elements where a row has no more.

    Work that goes through them takes half the time of work on the whole array, and no memory of its size.
    """
    rows = max(1, CACHED // max(1, array[:1].size))
    return (slice(first, first + rows) for first in range(0, len(array), rows))


def multiplied(array: Array, factors: Array) -> Array:
    """Floats times factors that broadcast to their shape, each product computed in float64 and rounded once; no copy of the array in float64."""
    found, factors = np.empty_like(array), np.broadcast_to(factors, array.shape)
    for part in row_blocks(array):
        wide = array[part].astype(np.float64)
        wide *= factors[part]
        found[part] = wide
    return found


def bypass(graph: ir.Graph, node: ir.Node, source: ir.Value) -> None:
    """Removes a node whose only output equals `source`; an output of the graph keeps its name."""
    output = node.outputs[0]
    final = output.is_graph_output()
    if final and (source.producer() is None or source.is_graph_output()):
        return
    replace_value(output, source, rename=final)
    graph.remove(node, safe=True)


def replace_value(old: ir.Value, new: ir.Value, rename: bool = True) -> None:
    """Lets every reader of `old` read `new`. rename: `new` takes the name too, which through all float stages stands for one value."""
    new.metadata_props.update(old.metadata_props)
    name = old.name
    old.replace_all_uses_with(new, replace_graph_outputs=True)
    if rename:
        old.name = f"{name}.gone"
        new.name = name


def clip(graph: ir.Graph, source: ir.Value, limits: Sequence[float], name: str, constants: Sequence[str]) -> ir.Node:
    """A new Clip, not yet in the graph. limits: the lower and the upper one; constants: the names wanted for them."""
    dtype = (source.dtype or ir.DataType.FLOAT).numpy()
    ends = [add_constant(graph, wanted, np.array(end, dtype)) for wanted, end in zip(constants, limits, strict=True)]
    return ir.node("Clip", [source, *ends], name=name, num_outputs=1)


def substitute(graph: ir.Graph, old: Sequence[ir.Node], made: Sequence[ir.Node]) -> None:
    """Puts new nodes in the place of old ones. The output of the last new node becomes that of the first old one, its shape and type included.

    old: each before those that it reads.
    """
    output, result = old[0].outputs[0], made[-1].outputs[0]
    result.shape, result.type = output.shape, output.type
    graph.insert_after(old[0], made)
    replace_value(output, result)
    for node in old:
        graph.remove(node, safe=True)


def drop_unused_constants(graph: ir.Graph) -> None:
    """Removes initializers that nothing reads."""
    for name in [name for name, value in graph.initializers.items() if not value.uses() and not value.is_graph_output()]:
        del graph.initializers[name]
