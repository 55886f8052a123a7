"""The integers of one length for another: a network of several lengths is quantised once, and every other length takes weights, scales and the
choice of what stays in floating point from there. So results of all lengths come from one integer network, whose constants are stored once."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from toolchain.graph.integers.calls import FLOAT_NAME
from toolchain.graph.integers.functions import is_integer
from toolchain.graph.rewrite import constant, known_shape
from toolchain.graph.store import read_stage
from toolchain.passes.context import Context, Pass
from toolchain.spec.errors import UserError, fail

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Resize(Pass):
    """Stands in the place of `quantize`, whose name it bears. fused, integer: the stages of the length that was quantised, before and after that."""

    name: ClassVar[str] = "quantize"
    requires: ClassVar[tuple[str, ...]] = ("fused",)
    ensures: ClassVar[tuple[str, ...]] = ("quantized",)
    fused: Path = Path()
    integer: Path = Path()

    def run(self, model: ir.Model, context: Context) -> ir.Model:
        """Raises UserError E0933 where the two lengths are not one network."""
        return resized(model, read_stage(self.fused), read_stage(self.integer), context.place)


def resized(model: ir.Model, fused: ir.Model, integer: ir.Model, place: str = "") -> ir.Model:
    """The integer network in the sizes of `model`; nothing else of it changes. model, fused: one fused network in two sizes. integer: the latter's.

    Raises UserError E0933 where nodes differ, or where integers were made of a constant that depends on the length.
    """
    _check_nodes(model, fused, place)
    made = integer.clone()
    _take_constants(made, model, fused, place)
    _take_attributes(made, model, fused, place)
    _take_functions(made, model, fused, place)
    _take_shapes(made, model, fused)
    return made


def _unlike(text: str, place: str) -> UserError:
    return fail("E0933", f"the network is not the same at every length: {text}", hint="build this length by itself, with dim=", place=place)


def _check_nodes(model: ir.Model, fused: ir.Model, place: str) -> None:
    one, other = (list(_signatures(each)) for each in (model, fused))
    for here, there in zip(one, other, strict=False):
        if here != there:
            raise _unlike(f"where one has node '{there[0]}' ({there[1]}), another has '{here[0]}' ({here[1]})", place)
    if len(one) != len(other):
        raise _unlike(f"one has {len(other)} nodes, another has {len(one)}", place)


def _signatures(model: ir.Model) -> Iterator[tuple[str, str, tuple[str, ...], tuple[str, ...]]]:
    for node in model.graph:
        inputs, outputs = (tuple("" if value is None else value.name or "" for value in side) for side in (node.inputs, node.outputs))
        yield node.name or "", f"{node.domain}.{node.op_type}.{node.overload}", inputs, outputs


def _take_constants(made: ir.Model, model: ir.Model, fused: ir.Model, place: str) -> None:
    """Constants that depend on the length, such as a table of positions."""
    own, before, held = model.graph.initializers, fused.graph.initializers, made.graph.initializers
    for name, value in own.items():
        if name not in before or not _equal(value, before[name]):
            if name in held and name in before:
                held[name].const_value, held[name].shape = value.const_value, value.shape
            elif made_of := next((each for each in held if each.startswith(f"{name}.")), ""):
                raise _unlike(f"the constant '{name}' depends on the length, and '{made_of}' was made of it", place)


def _equal(one: ir.Value, other: ir.Value) -> bool:
    left, right = constant(one), constant(other)
    return left is not None and right is not None and left.shape == right.shape and left.dtype == right.dtype and np.array_equal(left, right)


def _take_attributes(made: ir.Model, model: ir.Model, fused: ir.Model, place: str) -> None:
    """Attributes that depend on the length; those that integers added are none of the fused nodes'."""
    nodes = {node.name: node for node in made.graph}
    for here, there in zip(model.graph, fused.graph, strict=True):
        for name in sorted({*here.attributes, *there.attributes}):
            if not _same(here.attributes.get(name), there.attributes.get(name)) and (node := nodes.get(here.name)):
                if name not in here.attributes or name not in there.attributes or not _same(node.attributes.get(name), there.attributes[name]):
                    raise _unlike(f"the attribute '{name}' of node '{here.name}' depends on the length", place)
                node.attributes[name] = here.attributes[name]


def _same(one: ir.Attr | None, other: ir.Attr | None) -> bool:
    """Whether two attributes are written alike."""
    texts = (None if each is None else ir.serde.serialize_attribute(each).SerializeToString(deterministic=True) for each in (one, other))
    return next(texts) == next(texts)


def _take_functions(made: ir.Model, model: ir.Model, fused: ir.Model, place: str) -> None:
    """Bodies of fused operations that the host keeps."""
    for key, function in model.functions.items():
        there = fused.functions.get(key)
        if there is None or _written(function) != _written(there):
            if any(is_integer(node) for node in made.graph if node.op_type == key[1]):
                raise _unlike(f"the body of '{key[1]}' depends on the length", place)
            if key in made.functions:
                made.functions[key] = function.clone()


def _written(function: ir.Function) -> bytes:
    return ir.serde.serialize_function(function).SerializeToString(deterministic=True)


def _take_shapes(made: ir.Model, model: ir.Model, fused: ir.Model) -> None:
    """Sizes that differ between the two fused networks; others, such as channels that fill a block, stay."""
    own, before = _shapes(model), _shapes(fused)
    for value in _values(made):
        name, shape = value.metadata_props.get(FLOAT_NAME) or value.name or "", known_shape(value)
        here, there = own.get(name), before.get(name)
        if shape and here and there and len(shape) == len(here) == len(there):
            value.shape = ir.Shape([size if old == new else new for size, new, old in zip(shape, here, there, strict=True)])


def _values(model: ir.Model) -> Iterator[ir.Value]:
    yield from model.graph.inputs
    for node in model.graph:
        yield from node.outputs


def _shapes(model: ir.Model) -> Mapping[str, Sizes]:
    return {value.name or "": shape for value in _values(model) if (shape := known_shape(value)) is not None}
