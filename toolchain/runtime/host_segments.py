"""A partitioned ONNX model as a plan: sub-models that ONNX Runtime runs, and calls of regions between them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx
import onnx_ir as ir

from toolchain.graph.files.weights import INLINE_BYTES
from toolchain.graph.nodes.structure import needed
from toolchain.graph.nodes.subgraphs import Identifier, all_nodes, called_functions
from toolchain.graph.operators.work import Work, host_work
from toolchain.graph.regions import REGION
from toolchain.runtime.archive import data_name
from toolchain.runtime.cutting import Item, turns


@dataclass(frozen=True)
class HostModel:
    """model: the bytes of a valid ONNX model; constants: what it points to, by location. Others as in a bundle."""

    model: bytes
    constants: Mapping[str, bytes]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    work: Mapping[str, Work]


@dataclass(frozen=True)
class RegionCall:
    """A call of a region, and the graph's tensors that it reads and makes, constants left out."""

    region: str
    inputs: tuple[ir.Value, ...]
    outputs: tuple[ir.Value, ...]


def cut_model(model: ir.Model) -> tuple[HostModel | RegionCall, ...]:
    """The steps of a model, in the order in which they run; tensors that only pass through make no step."""
    return _Cut(model).steps()


class _Cut:
    """Facts about a graph that cutting looks up again and again."""

    def __init__(self, model: ir.Model) -> None:
        graph = model.graph
        self.model, self.nodes = model, list(graph)
        self.protos = [ir.serde.serialize_node(node) for node in self.nodes]
        self.constants = graph.initializers
        self.items = [_item(node, proto, self.constants) for node, proto in zip(self.nodes, self.protos, strict=True)]
        made = (value for node in self.nodes for value in node.outputs)
        self.values = {value.name or "": value for value in (*graph.inputs, *made, *self.constants.values())}
        self.wanted = {value.name or "" for value in graph.outputs}

    def steps(self) -> tuple[HostModel | RegionCall, ...]:
        given = [value.name or "" for value in self.model.graph.inputs]
        return (*self._constants(), *self._steps(given))

    def _constants(self) -> Iterator[HostModel]:
        """Outputs that depend on nothing, if there are any."""
        if fixed := [name for name in self.wanted if name in self.constants]:
            yield self._host([], sorted(fixed))

    def _steps(self, given: Sequence[str]) -> Iterator[HostModel | RegionCall]:
        for turn in turns(self.items, given):
            if turn.region:
                yield from (self._call(number) for number in turn.items)
            else:
                inside = set(turn.items)
                read = {name for number, item in enumerate(self.items) if number not in inside for name in item.reads}
                made = [name for number in turn.items for name in self.items[number].writes]
                yield self._host(turn.items, [name for name in made if name in read or name in self.wanted])

    def _call(self, number: int) -> RegionCall:
        node = self.nodes[number]
        data = (value for value in node.inputs if value is not None and value.name not in self.constants)
        return RegionCall(node.op_type, tuple(data), tuple(node.outputs))

    def _host(self, numbers: Sequence[int], outputs: Sequence[str]) -> HostModel:
        protos = [self.protos[number] for number in numbers]
        made = {name for number in numbers for name in self.items[number].writes}
        reads = dict.fromkeys(name for proto in protos for name in needed(proto) if name not in made)
        inputs = tuple(name for name in reads if name not in self.constants)
        held = [name for name in dict.fromkeys((*reads, *outputs)) if name in self.constants]
        stored: dict[str, bytes] = {}
        tensors = [_tensor(self.constants[name], stored) for name in held]
        ends = [[ir.serde.serialize_value(self.values[name]) for name in names] for names in (inputs, outputs)]
        graph = onnx.GraphProto(node=protos, name="host", input=ends[0], output=ends[1], initializer=tensors)
        functions = _functions(self.model, protos)
        bodies = (protos, *(function.node for function in functions))
        used = {"", *(node.domain for body in bodies for node in all_nodes(body))}
        opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in sorted(self.model.opset_imports.items()) if domain in used]
        proto = onnx.helper.make_model(graph, functions=functions, opset_imports=opsets, ir_version=self.model.ir_version, producer_name="tilewright")
        work = host_work([self.nodes[number] for number in numbers])
        return HostModel(proto.SerializeToString(deterministic=True), stored, inputs, tuple(outputs), work)


def _item(node: ir.Node, proto: onnx.NodeProto, constants: Mapping[str, ir.Value]) -> Item:
    reads = frozenset(name for name in needed(proto) if name not in constants)
    return Item(node.name or "", node.domain == REGION, reads, tuple(value.name for value in node.outputs if value.name))


def _tensor(value: ir.Value, stored: dict[str, bytes]) -> onnx.TensorProto:
    """The constant itself, or a pointer to its bytes, which then are in `stored`."""
    tensor = value.const_value
    assert tensor is not None
    if tensor.nbytes <= INLINE_BYTES or tensor.dtype == ir.DataType.STRING:
        proto = ir.serde.serialize_tensor(tensor)
        proto.name = value.name or ""
        return proto
    data = tensor.tobytes()
    location = data_name(data)
    stored[location] = data
    pointer = ir.ExternalTensor(location, 0, len(data), tensor.dtype, shape=ir.Shape(tensor.shape.numpy()), name=value.name or "", base_dir="")
    return ir.serde.serialize_tensor(pointer)


def _functions(model: ir.Model, protos: Iterable[onnx.NodeProto]) -> list[onnx.FunctionProto]:
    """The local functions that nodes call, and those that these call."""

    def written(key: Identifier) -> onnx.FunctionProto | None:
        return ir.serde.serialize_function(model.functions[key]) if key in model.functions else None

    found = called_functions(protos, written)
    return [found[key] for key in sorted(found)]
