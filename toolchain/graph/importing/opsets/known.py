"""A model before its upgrade: the types, shapes and constants that are known, and whether each node has the form of its operator set."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import onnx
from onnx import defs, numpy_helper

from toolchain.graph.files.weights import is_external
from toolchain.graph.nodes.subgraphs import subgraphs
from toolchain.spec.arrays import Array

SINGLE = defs.OpSchema.FormalParameterOption.Single


@dataclass(frozen=True)
class _Form:
    """An operator at an operator set. types: of every attribute, as ONNX names them. single: for each input, whether it must be there."""

    schema: defs.OpSchema
    types: Mapping[str, str]
    required: tuple[str, ...]
    single: tuple[bool, ...]


@cache
def _form(kind: str, version: int) -> _Form:
    schema = defs.get_schema(kind, version, "")
    attributes = schema.attributes
    types = {name: str(attribute.type).rpartition(".")[2] for name, attribute in attributes.items()}
    required = tuple(name for name, attribute in attributes.items() if attribute.required and name != "consumed_inputs")
    return _Form(schema, types, required, tuple(operand.option == SINGLE for operand in schema.inputs))


@cache
def changed(kind: str, version: int, target: int) -> bool:
    """Whether an operator of one operator set has another form, or more types, in a later one.

    A Constant counts as unchanged: ONNX Runtime takes it for a stored tensor and does not ask for its form.
    """
    return kind != "Constant" and defs.get_schema(kind, version, "").since_version != defs.get_schema(kind, target, "").since_version


def fault(node: onnx.NodeProto, version: int) -> str:
    """How a node of ONNX differs from its operator at that operator set; empty where it does not."""
    form = _form(node.op_type, version)
    schema, names = form.schema, [attribute.name for attribute in node.attribute]
    if not schema.min_input <= len(node.input) <= schema.max_input or not schema.min_output <= len(node.output) <= schema.max_output:
        return f"{len(node.input)} inputs and {len(node.output)} outputs do not fit"
    if any(needed and not name for needed, name in zip(form.single, node.input, strict=False)):
        return "an input that is needed has no name"
    for attribute in node.attribute:
        if attribute.name not in form.types:
            return f"the attribute '{attribute.name}' does not belong there"
        if onnx.AttributeProto.AttributeType.Name(attribute.type) != form.types[attribute.name]:
            return f"the attribute '{attribute.name}' is no {form.types[attribute.name]}"
    if len(set(names)) < len(names):
        return "an attribute is given twice"
    missing = [name for name in form.required if name not in names]
    return f"the attribute '{missing[0]}' is missing" if missing else ""


Shape = tuple[int | None, ...]


@dataclass(frozen=True, eq=False)
class Known:
    """The tensors that the nodes of one graph can read, those of the graphs around it included.

    infer: the same graph with inferred types; called once, and only if a type is asked for.
    """

    graph: onnx.GraphProto
    infer: Callable[[], onnx.GraphProto]
    outer: "Known | None" = None

    def type_of(self, name: str) -> int:
        """The element type as ONNX numbers it; 0 where it is not known."""
        found = self._find(name)
        return 0 if found is None else found.elem_type

    def shape(self, name: str) -> Shape | None:
        """None for a rank that is not known, and for a size that is open."""
        found = self._find(name)
        if found is None or not found.HasField("shape"):
            return None
        return tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in found.shape.dim)

    def constant(self, name: str) -> Array | None:
        """The values of a small initializer or of a Constant node; None for any other tensor."""
        if name in self._constants:
            return numpy_helper.to_array(self._constants[name])
        return None if self.outer is None else self.outer.constant(name)

    def numbers(self, name: str) -> Array | None:
        """A constant of finite real numbers, as one list."""
        array = self.constant(name)
        return array.ravel() if array is not None and array.dtype.kind in "iuf" and np.isfinite(array).all() else None

    def inner(self, node: int, number: int) -> "Known":
        """The view from inside a subgraph of a node, by number."""
        return Known(subgraphs(self.graph.node[node])[number], lambda: subgraphs(self._inferred.node[node])[number], self)

    def _find(self, name: str) -> onnx.TypeProto.Tensor | None:
        if name in self._types:
            return self._types[name]
        return None if self.outer is None else self.outer._find(name)

    @cached_property
    def _inferred(self) -> onnx.GraphProto:
        return self.infer()

    @cached_property
    def _types(self) -> Mapping[str, onnx.TypeProto.Tensor]:
        graph = self._inferred
        types = {tensor.name: _type(tensor) for tensor in graph.initializer}
        for entry in (*graph.input, *graph.value_info, *graph.output):
            if entry.type.HasField("tensor_type"):
                types[entry.name] = entry.type.tensor_type
        return types

    @cached_property
    def _constants(self) -> Mapping[str, onnx.TensorProto]:
        stored = {tensor.name: tensor for tensor in self.graph.initializer}
        for node in self.graph.node:
            if node.op_type == "Constant" and not node.domain and node.output:
                stored.update((node.output[0], attribute.t) for attribute in node.attribute if attribute.HasField("t"))
        return {name: tensor for name, tensor in stored.items() if not is_external(tensor)}


def _type(tensor: onnx.TensorProto) -> onnx.TypeProto.Tensor:
    return onnx.helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims)).tensor_type
