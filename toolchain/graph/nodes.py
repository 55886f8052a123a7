"""Nodes of a protobuf model: their names in messages, their bodies and functions, and the order in which they run.

The nodes make a graph if every tensor is made once and none before its own inputs; those in the bodies of loops, scans and conditions count too.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import onnx

from toolchain.graph.rewrite import ONNX_DOMAINS
from toolchain.spec.errors import fail, nearest

REASON = "tilewright.reason"
"""Metadata of a node: why it is not on the machine, as JSON (`reasons_json`)."""


def node_text(node: onnx.NodeProto) -> str:
    """`node 'conv1' (Conv)`; a node without a name goes by its first output."""
    kind = f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
    return f"node '{node.name or next(iter(node.output), '')}' ({kind})"


def shape_text(shape: Sequence[int | str | None] | None) -> str:
    """`1x3x224x224`, `?` for an unknown size."""
    if shape is None:
        return "of unknown rank"
    return "x".join("?" if size is None else str(size) for size in shape) or "scalar"


Identifier = tuple[str, str, str]
"""Domain, name and overload of a function."""
Find = Callable[[Identifier], onnx.FunctionProto | None]


def subgraphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """The graphs that the attributes of a node hold."""
    return [graph for attribute in node.attribute for graph in ([attribute.g] if attribute.HasField("g") else attribute.graphs)]


def all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Nodes and those of their subgraphs."""
    for node in nodes:
        yield node
        for inner in subgraphs(node):
            yield from all_nodes(inner.node)


def own_names(graph: onnx.GraphProto) -> set[str]:
    """The tensors that a graph is given, stores or makes itself."""
    return {entry.name for entry in (*graph.input, *graph.initializer)} | {name for node in graph.node for name in node.output}


def replace_nodes(graph: onnx.GraphProto, nodes: Iterable[onnx.NodeProto]) -> None:
    """Gives a graph other nodes, some of which may be those that it has."""
    copies = onnx.GraphProto(node=nodes)  # protobuf forgets what it held before it takes what it is given
    graph.ClearField("node")
    graph.node.MergeFrom(copies.node)


def called_functions(nodes: Iterable[onnx.NodeProto], find: Find) -> dict[Identifier, onnx.FunctionProto]:
    """The functions that nodes call, and those that these call. find: answers None for an operator."""
    found: dict[Identifier, onnx.FunctionProto] = {}
    left = list(all_nodes(nodes))
    while left:
        node = left.pop()
        key = (node.domain, node.op_type, node.overload)
        function = None if key in found else find(key)
        if function is not None:
            found[key] = function
            left += all_nodes(function.node)
    return found


Shapes = Mapping[str, Sequence[int | None] | None]
"""By tensor; None for a size that is open, and for a tensor of unknown rank."""


def tensor_shapes(proto: onnx.ModelProto) -> Shapes:
    """The shape of every tensor that has one; None for a size that is open."""
    graph = proto.graph
    shapes: dict[str, Sequence[int | None] | None] = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for entry in (*graph.input, *graph.value_info, *graph.output):
        kind = entry.type.tensor_type
        if entry.type.HasField("tensor_type") and kind.HasField("shape"):
            shapes[entry.name] = tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in kind.shape.dim)
    return shapes


SEVERAL = ("If", "Loop", "Scan", "Split")
"""Operators with as many results as a node likes."""


def sort_nodes(graph: onnx.GraphProto, path: Path) -> None:
    """Puts the nodes in an order that can be run, the given one where it can; names nodes that have no name.

    Raises UserError E0903: a tensor made twice or by nobody, an input or an output listed twice, a result left out, or a cycle.
    """
    _check_ends(graph, path)
    _check_results(graph, path)
    makers = _makers(graph, path)
    _check_defined(graph, makers, path)
    order = _order(graph.node, makers)
    if len(order) < len(graph.node):
        raise fail("E0903", f"the graph has a cycle: {' -> '.join(_cycle(graph, makers, set(order)))}", place=str(path))
    if order != list(range(len(order))):
        replace_nodes(graph, [graph.node[i] for i in order])
    for node in graph.node:
        node.name = node.name or next(iter(node.output), "")


def _numbered(node: onnx.NodeProto, number: int) -> str:
    """As `node_text`; a node without a name goes by its number in the file, from 0, as others may make the same tensor."""
    return node_text(node) if node.name else f"node {number} ({node.op_type}, without a name)"


MOST_SIZE = (1 << 31) - 1
SIZES = ("axes", "axis", "blocksize", "dilations", "group", "hidden_size", "kernel_shape", "output_padding", "output_shape", "pads", "strides")
"""Attributes of the standard's operators that ONNX Runtime keeps in 32 bits, or takes for sizes of memory; it cuts larger ones off, or stops."""


def check_sizes(graph: onnx.GraphProto, path: Path) -> None:
    """Raises UserError E0908 naming the first attribute of a size, or of an axis, past 32 bits."""
    for node in all_nodes(graph.node):
        for attribute in node.attribute:
            given = [*attribute.ints, attribute.i]
            most = max(given, key=abs)
            if node.domain in ONNX_DOMAINS and attribute.name in SIZES and abs(most) > MOST_SIZE:
                raise fail("E0908", f"{node_text(node)}: '{attribute.name}' has {most}; at most {MOST_SIZE} either way", place=str(path))


def part_names(graph: onnx.GraphProto) -> None:
    """Gives every node a name of its own, the first of several keeping the one they share: ONNX Runtime refuses others.

    A name is one line, as listings and messages take it.
    """
    taken: set[str] = set()
    for node in graph.node:
        wanted, number = " ".join((node.name or next(iter(node.output), "")).split()), 0
        name = wanted
        while name in taken:
            number += 1
            name = f"{wanted}.{number}"
        taken.add(name)
        node.name = name


def unify_constants(graph: onnx.GraphProto, path: Path) -> None:
    """Keeps one of several equal constants of one name. Raises UserError E0903 where they differ.

    ONNX Runtime says that it takes the last, and takes the first (measured on ONNX Runtime 1.31).
    """
    kept: dict[str, onnx.TensorProto] = {}
    for tensor in graph.initializer:
        other = kept.setdefault(tensor.name, tensor)
        if other is not tensor and other.SerializeToString() != tensor.SerializeToString():
            raise fail("E0903", f"the constant '{tensor.name}' is stored twice, with different values", hint="store it once", place=str(path))
    if len(kept) < len(graph.initializer):
        copies = [onnx.TensorProto.FromString(tensor.SerializeToString()) for tensor in kept.values()]
        del graph.initializer[:]
        graph.initializer.extend(copies)


def drop_unread(graph: onnx.GraphProto) -> None:
    """Removes constants that no node reads and the graph does not hand out."""
    read = {name for node in graph.node for name in needed(node)} | {entry.name for entry in graph.output}
    unread = [tensor for tensor in graph.initializer if tensor.name not in read]
    for tensor in unread:
        graph.initializer.remove(tensor)


def _check_ends(graph: onnx.GraphProto, path: Path) -> None:
    """Inputs and outputs are given and found by name."""
    for kind, entries in (("input", graph.input), ("output", graph.output)):
        for name, times in Counter(entry.name for entry in entries).items():
            if times > 1:
                raise fail("E0903", f"the {kind} '{name}' is listed {times} times", hint="list it once", place=str(path))


def _check_results(graph: onnx.GraphProto, path: Path) -> None:
    """ONNX Runtime ends the whole process where one of several results has no name (measured on ONNX Runtime 1.31)."""
    for node in all_nodes(graph.node):
        if node.domain in ONNX_DOMAINS and node.op_type in SEVERAL and "" in node.output:
            text = f"{node_text(node)} leaves result {list(node.output).index('')} without a name"
            raise fail("E0903", text, hint="name it, even if nothing reads it", place=str(path))


def _makers(graph: onnx.GraphProto, path: Path) -> dict[str, int]:
    """Tensor to the number of the node that makes it; -1 for inputs and constants."""
    makers = {entry.name: -1 for entry in (*graph.input, *graph.initializer)}
    for number, node in enumerate(graph.node):
        for output in node.output:
            if output and output in makers:
                first = makers[output]
                other = "an input or a constant" if first < 0 else _numbered(graph.node[first], first)
                raise fail("E0903", f"the tensor '{output}' is made by {_numbered(node, number)} and by {other}", place=str(path))
            if output:
                makers[output] = number
    return makers


def _check_defined(graph: onnx.GraphProto, makers: dict[str, int], path: Path) -> None:
    for node in graph.node:
        for name in needed(node):
            if name not in makers:
                raise fail("E0903", f"{node_text(node)} reads the tensor '{name}', which nothing makes", hint=nearest(name, makers), place=str(path))
    for output in graph.output:
        if output.name not in makers:
            raise fail("E0903", f"the graph's output '{output.name}' is made by no node", hint=nearest(output.name, makers), place=str(path))


def needed(node: onnx.NodeProto) -> Iterator[str]:
    """The tensors of the enclosing graph that a node reads, those its subgraphs reach out for included."""
    yield from (name for name in node.input if name)
    for inner in subgraphs(node):
        own = own_names(inner)
        yield from (name for part in inner.node for name in needed(part) if name not in own)


def _order(nodes: Sequence[onnx.NodeProto], makers: dict[str, int]) -> list[int]:
    waits = [{makers[name] for name in needed(node)} - {-1} for node in nodes]
    if all(max(wait, default=-1) < number for number, wait in enumerate(waits)):
        return list(range(len(nodes)))
    users: list[list[int]] = [[] for _ in nodes]
    for number, wait in enumerate(waits):
        for maker in wait:
            users[maker].append(number)
    left = [len(wait) for wait in waits]
    ready, order = deque(number for number, count in enumerate(left) if count == 0), list[int]()
    while ready:
        order.append(number := ready.popleft())
        for user in users[number]:
            left[user] -= 1
            if left[user] == 0:
                ready.append(user)
    return order


def _cycle(graph: onnx.GraphProto, makers: dict[str, int], done: set[int]) -> list[str]:
    """Walks backwards through the nodes that cannot be ordered until one comes twice; at most six names are shown."""
    number = next(i for i in range(len(graph.node)) if i not in done)
    seen: list[int] = []
    while number not in seen:
        seen.append(number)
        number = next(makers[name] for name in needed(graph.node[number]) if makers[name] >= 0 and makers[name] not in done)
    ring = [node_text(graph.node[i]) for i in reversed([number, *reversed(seen[seen.index(number) + 1 :]), number])]
    return ring if len(ring) <= 6 else [*ring[:3], "...", *ring[-2:]]
