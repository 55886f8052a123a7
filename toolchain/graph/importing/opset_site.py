"""One node on its way to a newer operator set, among the types, shapes and constants known of its model.

Each node must have the form of its operator set. Its attributes are taken off, inputs and neighbours put on.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper

from toolchain.graph.files import is_external
from toolchain.graph.nodes import node_text, subgraphs
from toolchain.operations.numbers import Attributes
from toolchain.spec.arrays import Array
from toolchain.spec.errors import UserError, fail

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
class KnownTensors:
    """The tensors that the nodes of one graph can read, those of the graphs around it included.

    infer: the same graph with inferred types; called once, and only if a type is asked for.
    """

    graph: onnx.GraphProto
    infer: Callable[[], onnx.GraphProto]
    outer: "KnownTensors | None" = None

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

    def inner(self, node: int, number: int) -> "KnownTensors":
        """The view from inside a subgraph of a node, by number."""
        return KnownTensors(subgraphs(self.graph.node[node])[number], lambda: subgraphs(self._inferred.node[node])[number], self)

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


REAL = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE)


@dataclass(frozen=True)
class Names:
    """The names of a whole model. taken: by tensors and nodes; grows with every new one. read: tensors that a node reads, or that a graph gives."""

    taken: set[str]
    read: frozenset[str]
    used: Counter[str] = field(default_factory=Counter[str])

    def fresh(self, wanted: str) -> str:
        """`wanted`, or `wanted.1` and so on, whichever is free."""
        name = wanted
        while name in self.taken:
            self.used[wanted] += 1
            name = f"{wanted}.{self.used[wanted]}"
        self.taken.add(name)
        return name


@dataclass(frozen=True)
class Journey:
    """The file, the operator set that it is written for, and the one that it is brought to: as messages name them."""

    path: Path
    origin: int
    target: int


@dataclass(frozen=True, eq=False)
class Site:
    """A node that adapters change in place, with the nodes and constants that come to stand around it.

    version: the operator set that the node is in by now.
    """

    node: onnx.NodeProto
    version: int
    known: KnownTensors
    names: Names
    journey: Journey
    before: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    after: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    constants: list[onnx.TensorProto] = field(default_factory=list[onnx.TensorProto])

    def refuse(self, reason: str, hint: str = "") -> UserError:
        """E0906 that names the node and both operator sets."""
        text = f"{node_text(self.node)}: no equal form of operator set {self.journey.origin} in {self.journey.target}: {reason}"
        return fail("E0906", text, hint=hint, place=str(self.journey.path))

    def take(self, name: str) -> onnx.AttributeProto | None:
        """The attribute, which the node then no longer has; None where it is left out."""
        for number, attribute in enumerate(self.node.attribute):
            if attribute.name == name:
                found = onnx.AttributeProto()
                found.CopyFrom(attribute)
                del self.node.attribute[number]
                return found
        return None

    def take_int(self, name: str, default: int) -> int:
        found = self.take(name)
        return default if found is None else found.i

    def take_float(self, name: str) -> float | None:
        found = self.take(name)
        return None if found is None else found.f

    def take_ints(self, name: str) -> list[int] | None:
        found = self.take(name)
        return None if found is None else list(found.ints)

    def integer(self, name: str, default: int) -> int:
        """The number of an attribute, which stays."""
        return next((attribute.i for attribute in self.node.attribute if attribute.name == name), default)

    def text(self, name: str, default: str = "") -> str:
        """The text of an attribute, which stays."""
        return next((attribute.s.decode(errors="replace") for attribute in self.node.attribute if attribute.name == name), default)

    def put(self, **attributes: object) -> None:
        """Sets attributes, those that are there already included."""
        for name, value in attributes.items():
            self.take(name)
            self.node.attribute.append(helper.make_attribute(name, value))

    def constant(self, array: Array, hint: str) -> str:
        """The name of a new constant."""
        name = self.names.fresh(f"{self._label}.{hint}")
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def whole(self, values: Sequence[int] | int, hint: str) -> str:
        """The name of a new int64 constant: a list, or one number without dimensions."""
        return self.constant(np.asarray(values, np.int64), hint)

    def scalar(self, value: float, like: str, hint: str) -> str:
        """The name of a number without dimensions, of the real type of the tensor `like`."""
        if not self.known.type_of(like):
            return self.insert("CastLike", [self.constant(np.asarray(value, np.float32), hint), like])
        with np.errstate(over="ignore"):
            return self.constant(np.asarray(value, np.float32).astype(self.real_type(like)), hint)

    def real_type(self, name: str) -> np.dtype[np.generic]:
        """The type of a tensor that old operator sets want to be of real numbers. Raises UserError E0906 for another."""
        kind = self.known.type_of(name)
        if kind not in REAL:
            raise self.refuse(f"the tensor '{name}' is not known to hold real numbers")
        return helper.tensor_dtype_to_np_dtype(kind)

    def insert(self, kind: str, inputs: Sequence[str], **attributes: object) -> str:
        """Puts a node before this one. Returns the name of its output."""
        return self._add(self.before, kind, inputs, "", attributes)

    def append(self, kind: str, inputs: Sequence[str], output: str, **attributes: object) -> None:
        """Puts a node after this one, which makes the tensor `output`."""
        self._add(self.after, kind, inputs, output, attributes)

    def reroute(self) -> tuple[str, str]:
        """Lets the node make a new tensor. Returns its name and that of the first output it made until then."""
        outer = self.node.output[0]
        self.node.output[0] = self.names.fresh(f"{self._label}.inner")
        return self.node.output[0], outer

    def wire(self, *inputs: str) -> None:
        """Sets all inputs; those left out at the end go."""
        given = list(inputs)
        while given and not given[-1]:
            given.pop()
        del self.node.input[:]
        self.node.input.extend(given)

    def given(self, number: int) -> str:
        """An input by number; an empty name where it is left out."""
        return self.node.input[number] if number < len(self.node.input) else ""

    @property
    def _label(self) -> str:
        return self.node.name or next(iter(self.node.output), "")

    def _add(self, place: list[onnx.NodeProto], kind: str, inputs: Sequence[str], output: str, attributes: Attributes) -> str:
        name = self.names.fresh(f"{self._label}.{kind.lower()}")
        place.append(helper.make_node(kind, inputs, [output or name], name, **attributes))
        return output or name


Adapter = Callable[[Site], None]
"""Rewrites the node of a site, in place. Raises UserError E0906 where no equal form exists."""
