"""Parts of a model as models of their own: between some of its tensors, or cropped to the part of a picture that is enough to compare them."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import lcm, prod
from pathlib import Path
from typing import NamedTuple

import onnx
import onnx_ir as ir

from toolchain.graph.files import check_constants, read_proto, take_weights
from toolchain.graph.importing.resolve import declare_types, infer_partly
from toolchain.graph.nodes import called_functions, needed, node_text, own_names, sort_nodes, subgraphs, unify_constants
from toolchain.graph.rewrite import captured, known_shape, text
from toolchain.spec.errors import fail, nearest

Tensors = Mapping[str, onnx.ValueInfoProto]


def extract_model(path: Path, inputs: Sequence[str], outputs: Sequence[str]) -> onnx.ModelProto:
    """inputs, outputs: names of tensors; none stands for those of the model. Nodes and constants are the file's, external data still beside it.

    Raises UserError E0001, E0901 to E0903 (the file), E0930 (no such tensor), E0931 (an input is missing), E0932 (nothing between the tensors).
    """
    proto = read_proto(path)
    check_constants(proto, path)
    unify_constants(proto.graph, path)
    sort_nodes(proto.graph, path)
    graph, constants = proto.graph, {tensor.name for tensor in proto.graph.initializer}
    given = [entry.name for entry in graph.input if entry.name not in constants]
    wanted = list(dict.fromkeys(outputs or [entry.name for entry in graph.output]))
    _check_names(graph, [*inputs, *wanted], path)
    nodes, read = _between(graph, set(inputs or given), wanted)
    ends = list(dict.fromkeys(inputs or [name for name in given if name in read]))
    _check_cut(nodes, read, ends, wanted, given, path)
    types = _types(proto)
    part = onnx.GraphProto(name=f"{graph.name} from {', '.join(ends)} to {', '.join(wanted)}", node=nodes)
    part.input.extend(_entries(ends, types, path))
    part.output.extend(_entries(wanted, types, path))
    part.initializer.extend(tensor for tensor in graph.initializer if tensor.name in (read | set(wanted)) - set(ends))
    inside = {name for node in nodes for name in node.output} - {*ends, *wanted}
    part.value_info.extend(entry for entry in graph.value_info if entry.name in inside)
    part.quantization_annotation.extend(entry for entry in graph.quantization_annotation if entry.tensor_name in inside | read)
    return _model(proto, part)


def _check_names(graph: onnx.GraphProto, names: Iterable[str], path: Path) -> None:
    known = dict.fromkeys(
        [entry.name for entry in (*graph.input, *graph.initializer)] + [name for node in graph.node for name in node.output if name]
    )
    for name in names:
        if name in known:
            continue
        holder = next((node for node in graph.node if name in set(_hidden(node))), None)
        if holder is not None:
            raise fail("E0930", f"the tensor '{name}' is inside a graph of {node_text(holder)}, which is run as a whole", place=str(path))
        raise fail("E0930", f"the model has no tensor '{name}'", hint=nearest(name, known), place=str(path))


def _hidden(node: onnx.NodeProto) -> Iterator[str]:
    """Tensors of the graphs inside a node."""
    for inner in subgraphs(node):
        yield from sorted(own_names(inner))
        for part in inner.node:
            yield from _hidden(part)


def _between(graph: onnx.GraphProto, ends: set[str], wanted: Sequence[str]) -> tuple[list[onnx.NodeProto], set[str]]:
    """The nodes that the wanted tensors need, in order, and the names that are read from outside of them."""
    makers = {name: number for number, node in enumerate(graph.node) for name in node.output if name and name not in ends}
    found, read, left = set[int](), set[str](), list(wanted)
    while left:
        name = left.pop()
        if name not in makers:
            read.add(name)
        elif makers[name] not in found:
            found.add(makers[name])
            left += needed(graph.node[makers[name]])
    return [graph.node[number] for number in sorted(found)], read


def _check_cut(nodes: Sequence[onnx.NodeProto], read: set[str], ends: Sequence[str], wanted: Sequence[str], given: Sequence[str], path: Path) -> None:
    missing = [name for name in given if name in read and name not in ends]
    if missing:
        first = next((node for node in nodes if missing[0] in set(needed(node))), None)
        reader = f", which {node_text(first)} reads" if first is not None else ""
        hint = f"add --from {' '.join(missing)}, or tensors between"
        raise fail("E0931", f"it also takes the model's input '{missing[0]}'{reader}", hint=hint, place=str(path))
    if not nodes:
        raise fail("E0932", f"no node makes {', '.join(wanted)} of anything", hint="name tensors that nodes make with --to", place=str(path))
    for name in ends:
        if name not in read:
            raise fail("E0932", f"nothing leads from '{name}' to {', '.join(wanted)}", hint="leave it out of --from", place=str(path))


def _types(proto: onnx.ModelProto) -> Tensors:
    """As inference finds them, else as the file declares them: exporters get shapes wrong. The copy for inference leaves weights out."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    take_weights(copy)
    del copy.graph.value_info[:]
    inferred = infer_partly(copy)
    declare_types(inferred)
    found = {entry.name: entry for entry in proto.graph.value_info if _typed(entry)}
    found |= {entry.name: entry for entry in (*inferred.graph.value_info, *inferred.graph.input, *inferred.graph.output) if _typed(entry)}
    stored = [onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims) for tensor in proto.graph.initializer]
    return found | {entry.name: entry for entry in stored}


def _typed(entry: onnx.ValueInfoProto) -> bool:
    return entry.type.WhichOneof("value") is not None


def _entries(names: Iterable[str], types: Tensors, path: Path) -> Iterator[onnx.ValueInfoProto]:
    for name in names:
        if name not in types:
            raise fail("E0930", f"the type of the tensor '{name}' is not known", hint="cut at another tensor", place=str(path))
        yield types[name]


def _model(proto: onnx.ModelProto, part: onnx.GraphProto) -> onnx.ModelProto:
    """With the functions that nodes of the part call, and those that these call."""
    known = {(function.domain, function.name, function.overload): function for function in proto.functions}
    found = called_functions(part.node, known.get)
    functions = [function for key, function in known.items() if key in found]
    return onnx.ModelProto(
        ir_version=proto.ir_version, opset_import=proto.opset_import, producer_name="tilewright", graph=part, functions=functions,
        metadata_props=proto.metadata_props,
    )  # fmt: skip


@dataclass
class SourceModel:
    """A sorted model to take pieces from, with its tensors and the places of its nodes looked up once."""

    model: ir.Model
    values: dict[str, ir.Value] = field(init=False)
    places: dict[ir.Node, int] = field(init=False)

    def __post_init__(self) -> None:
        nodes = list(self.model.graph)
        self.places = {node: number for number, node in enumerate(nodes)}
        self.values = {value.name or "": value for value in (*self.model.graph.inputs, *(value for node in nodes for value in node.outputs))}

    def above(self, tensor: str) -> set[str]:
        """Every tensor that a tensor is computed from."""
        found, left = set[str](), [self.values[tensor].producer()]
        while left:
            node = left.pop()
            for value in reads_of(node) if node is not None else ():
                if value.name and value.name not in found:
                    found.add(value.name)
                    left.append(value.producer())
        return found

    def operands(self, tensor: str, stop: Container[str]) -> tuple[set[str], list[ir.Node]]:
        """Going back from a tensor's maker: the tensors that are in `stop`, inputs of the model, or made by operators whose subgraphs read computed
        tensors; and the operators between, in the order of the graph."""
        found, between = set[str](), set[ir.Node]()
        left = [self.values[tensor].producer()]
        while left:
            node = left.pop()
            if node is None or node in between:
                continue
            between.add(node)
            for value in reads_of(node):
                maker = value.producer()
                if maker is None or (value.name or "") in stop or looks_out(maker):
                    found.add(value.name or "")
                else:
                    left.append(maker)
        return found, sorted(between, key=self.places.__getitem__)


def looks_out(node: ir.Node) -> bool:
    """Whether subgraphs of a node read computed tensors of the graph around it."""
    return any(not value.is_initializer() for value in captured(node))


def reads_of(node: ir.Node) -> list[ir.Value]:
    """Operands that are no constants, those of subgraphs included."""
    return [value for value in (*node.inputs, *captured(node)) if value is not None and not value.is_initializer()]


OPERAND = "operand/"
"""Stands before the names of fed tensors."""


class Pieces:
    """Gathers pieces of one model; each has copies of its operators. Fed tensors, constants and operators that read the same are shared.

    shapes: of fed tensors that are not fed whole; tensors between have no shapes then.
    """

    def __init__(self, source: ir.Model, shapes: Mapping[str, tuple[int, ...]] | None = None) -> None:
        self._source = source
        self._shapes = shapes or {}
        self._inputs: dict[str, ir.Value] = {}
        self._constants: dict[ir.Value, ir.Value] = {}
        self._nodes: list[ir.Node] = []
        self._copies: dict[tuple[ir.Node, tuple[ir.Value | None, ...]], ir.Node] = {}
        self._results: list[ir.Value] = []

    def add(self, tensor: str, operands: Container[str], nodes: Iterable[ir.Node]) -> None:
        """A piece whose result is `tensor`: `nodes` with every operand fed."""
        known = dict[str, ir.Value]()
        for node in nodes:
            copy = self._copy(node, tuple(None if value is None else self._given(value, operands, known) for value in node.inputs))
            known |= {old.name or "": new for old, new in zip(node.outputs, copy.outputs, strict=True)}
        self._results.append(known[tensor])

    def _copy(self, node: ir.Node, given: tuple[ir.Value | None, ...]) -> ir.Node:
        """Residual networks have pieces that all begin with the same operators: computing those again for each would be quadratic."""
        if (node, given) in self._copies:
            return self._copies[node, given]
        number = len(self._results)
        copy = ir.Node(node.domain, node.op_type, given, node.attributes.values(), num_outputs=len(node.outputs), name=f"{number}/{node.name}")
        for old, new in zip(node.outputs, copy.outputs, strict=True):
            new.name, new.type = f"{number}/{old.name}" if old.name else "", old.type
            new.shape = None if self._shapes else old.shape
        for value in captured(node):
            self._given(value, (), {})  # a body names constants of the graph around it
        self._nodes.append(copy)
        self._copies[node, given] = copy
        return copy

    def _given(self, value: ir.Value, operands: Container[str], known: dict[str, ir.Value]) -> ir.Value:
        name = value.name or ""
        if value.is_initializer():
            if value not in self._constants:
                self._constants[value] = ir.Value(name=name, const_value=value.const_value, shape=value.shape, type=value.type)
            return self._constants[value]
        if name in operands:
            shape = ir.Shape(self._shapes[name]) if name in self._shapes else value.shape
            return self._inputs.setdefault(name, ir.Value(name=f"{OPERAND}{name}", shape=shape, type=value.type))
        return known[name]

    def model(self) -> ir.Model:
        """Inputs are called OPERAND and their name; outputs are in the order of the pieces."""
        constants, inputs, opsets = list(self._constants.values()), list(self._inputs.values()), self._source.opset_imports
        graph = ir.Graph(inputs, self._results, nodes=self._nodes, initializers=constants, opset_imports=opsets, name="pieces")
        return ir.Model(graph, ir_version=self._source.ir_version or 10, functions=list(self._source.functions.values()))


LEAST = 8
"""Rows and columns that hold an inside and both edges."""
BINARY = ("Add", "Sub", "Mul", "Div")
EVERYWHERE = ("BatchNormalization", "Clip", "Constant", "Identity", "LeakyRelu", "Relu", *BINARY)
"""Operators that do the same to every row and column, whatever there are of them, if their constants do."""
Functions = Mapping[ir.OperatorIdentifier, ir.Function]


class Crop(NamedTuple):
    """size: rows and columns that are enough; 0 for all. step: rows that are left out are a multiple of it, so that windows end where they did."""

    size: int = 0
    step: int = 1


WHOLE = Crop()
POINT = Crop(1, 1)
"""The window of an operator that looks at one row and column alone."""


def cropped(value: ir.Value, crop: Crop) -> tuple[int, ...]:
    """The shape of a tensor with no more rows and columns than need be."""
    shape = known_shape(value) or ()
    left = (extent - max(extent - crop.size, 0) // crop.step * crop.step for extent in shape[2:])
    return (*shape[:2], *left) if crop.size else shape


def enough(fed: Sequence[ir.Value], forms: Sequence[Sequence[ir.Node]], functions: Functions) -> Crop:
    """Rows and columns of operands that show whatever the nodes of each form do. With windows there is one operand and no branch: tensors of two
    sizes would not go together any more."""
    shapes = list(dict.fromkeys(known_shape(value) for value in fed))
    shape = shapes[0] if shapes else None
    if len(shapes) != 1 or shape is None or len(shape) < 3:
        return WHOLE
    found = [[window for node in nodes for window in _windows(node, functions, len(shape))] for nodes in forms]
    known = [[window for window in windows if window is not None] for windows in found]
    joined = len(fed) > 1 or any(_joins(node, functions) for nodes in forms for node in nodes)
    if known != found or (joined and any(window != POINT for windows in known for window in windows)):
        return WHOLE
    sizes = [2 * window.size for windows in known for window in windows if window.size > 1]
    return Crop(max([LEAST, *sizes]), lcm(*(prod(window.step for window in windows) for windows in known)))


def _joins(node: ir.Node, functions: Functions) -> bool:
    """Whether a node computes with two computed tensors."""
    outer = sum(not value.is_initializer() for value in node.inputs if value is not None)
    return outer > 1 and any(inner.op_type in BINARY for inner in functions.get(node.op_identifier(), (node,)))


def _windows(node: ir.Node, functions: Functions, rank: int) -> Iterator[Crop | None]:
    """The rows or columns that one result of each operator sees, and how far apart they are for the next; None for an operator of which it is not
    known."""
    function = functions.get(node.op_identifier())
    outer = dict(zip(function.inputs, node.inputs, strict=False)) if function else {}
    for inner in (node,) if function is None else function:
        given = [outer.get(value, value) if value is not None else None for value in inner.inputs]
        if inner.domain == "" and inner.op_type == "Conv" and text(inner, "auto_pad", "NOTSET") == "NOTSET":
            kernel = (known_shape(given[1]) or ())[2:]
            dilations, strides = (_said(inner, node, name) or (1,) * len(kernel) for name in ("dilations", "strides"))
            reach = max([(size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True)], default=0)
            yield Crop(reach, lcm(*strides)) if reach else None
        else:
            alike = inner.op_type not in BINARY or all(_is_even(value, rank) for value in given)
            yield POINT if inner.domain == "" and inner.op_type in EVERYWHERE and alike else None


def _said(inner: ir.Node, call: ir.Node, name: str) -> tuple[int, ...]:
    """An attribute of a convolution, which may come from the call of the function that it stands in; nothing where neither says any."""
    found = inner.attributes.get(name)
    if found is not None and found.is_ref():
        found = call.attributes.get(found.ref_attr_name or "")
    return () if found is None else tuple(found.as_ints())


def _is_even(value: ir.Value | None, rank: int) -> bool:
    """Whether an operand is computed, or a constant with one value for all rows and columns."""
    if value is None or not value.is_initializer():
        return True
    shape = known_shape(value)
    return shape is not None and all(size == 1 for size in ((1,) * (rank - len(shape)) + shape)[2:])
