"""Simplifications: nodes that are unused or pass their input on are removed, a Pad becomes the padding of its pool."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from toolchain.graph.operators import interval_of, pad_fill
from toolchain.graph.rewrite import bypass, constant, drop_unused_constants, integer, ints, is_operator, known_shape, text
from toolchain.passes.context import Context, Pass


@dataclass(frozen=True)
class RemoveDead(Pass):
    """Inputs of the model stay, read or not: they are its interface."""

    name: ClassVar[str] = "remove_dead"
    ensures: ClassVar[tuple[str, ...]] = ("no_dead_nodes",)

    def run(self, model: ir.Model, context: Context) -> ir.Model:  # noqa: ARG002
        for node in reversed(list(model.graph)):
            if not any(value.uses() or value.is_graph_output() for value in node.outputs):
                model.graph.remove(node, safe=True)
        drop_unused_constants(model.graph)
        return model


RESHAPES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")
NEUTRAL: Mapping[str, int] = MappingProxyType({"Mul": 1, "Div": 1, "Add": 0, "Sub": 0})
"""The second operand with which an operator changes nothing; swish is exported with a product with one."""


@dataclass(frozen=True)
class RemoveIdentity(Pass):
    """Identity, products with one, sums with zero, inference Dropout, Pad by nothing, Concat and Sum of one, casts and reshapes without effect."""

    name: ClassVar[str] = "remove_identity"
    requires: ClassVar[tuple[str, ...]] = ()
    ensures: ClassVar[tuple[str, ...]] = ("no_identity",)

    def run(self, model: ir.Model, context: Context) -> ir.Model:  # noqa: ARG002
        for node in list(model.graph):
            if passes_through(node) and node.inputs[0] is not None:
                bypass(model.graph, node, node.inputs[0])
        drop_unused_constants(model.graph)
        return model


def passes_through(node: ir.Node) -> bool:
    """Whether the first output equals the first input and nothing else is read."""
    if not node.inputs or node.inputs[0] is None or any(value.uses() or value.is_graph_output() for value in node.outputs[1:]):
        return False
    if is_operator(node, "Dropout"):
        training = constant(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] is not None else np.False_
        return training is not None and not np.any(training)
    if is_operator(node, "Pad"):
        pads = constant(node.inputs[1])
        return pads is not None and not pads.any()
    if is_operator(node, *RESHAPES):
        return (before := known_shape(node.inputs[0])) is not None and before == known_shape(node.outputs[0])
    if is_operator(node, "Cast"):
        return node.inputs[0].dtype is not None and node.inputs[0].dtype == node.outputs[0].dtype
    if is_operator(node, *NEUTRAL) and (known := constant(node.inputs[1])) is not None:
        same = (before := known_shape(node.inputs[0])) is not None and before == known_shape(node.outputs[0])
        return same and bool(np.all(known == NEUTRAL[node.op_type]))
    return is_operator(node, "Identity") or (is_operator(node, "Concat", "Sum", "Max", "Min", "Mean") and len(node.inputs) == 1)


# Exporters write the padding of a max pool as a Pad with the least float, or with zero behind a ReLU. A max pool's own padding counts as minus
# infinity, so both give the same as long as no value is below the Pad's and every window holds a pixel.


@dataclass(frozen=True)
class MergePads(Pass):
    """Only where max pools alone read the padded tensor. Finite inputs: a picture of minus infinities would keep the pad's value."""

    name: ClassVar[str] = "merge_pads"
    requires: ClassVar[tuple[str, ...]] = ("no_constant_nodes",)

    def run(self, model: ir.Model, context: Context) -> ir.Model:  # noqa: ARG002
        for node in list(model.graph):
            source = node.inputs[0] if is_operator(node, "Pad") else None
            pads = None if source is None else _margins(node, source)
            if source is None or pads is None:
                continue
            readers = [reader for reader, _ in node.outputs[0].uses()]
            sums = [_together(reader, pads) for reader in readers]
            if readers and not node.outputs[0].is_graph_output() and all(sums):
                for reader, both in zip(readers, sums, strict=True):
                    reader.attributes["pads"] = ir.AttrInt64s("pads", both)
                    reader.replace_input_with(0, source)
                model.graph.remove(node, safe=True)
        drop_unused_constants(model.graph)
        return model


def _margins(node: ir.Node, source: ir.Value) -> list[int] | None:
    """Pixels added before and after each spatial axis, [begins, ends]; None where the Pad does more, or its value could be a maximum."""
    fill, shape, pads = pad_fill(node), known_shape(source), constant(node.inputs[1])
    if fill is None or shape is None or pads is None or source.dtype is None or text(node, "mode", "constant") != "constant":
        return None
    least = float(np.finfo(source.dtype.numpy()).min) if source.dtype.is_floating_point() else -np.inf
    if fill > max(least, interval_of(source).low):
        return None
    axes = constant(node.inputs[3]) if len(node.inputs) > 3 and node.inputs[3] is not None else np.arange(len(shape))
    if axes is None:
        return None
    margins = np.zeros((2, len(shape)), np.int64)
    margins[:, axes % len(shape)] = pads.reshape(2, -1)
    return None if (margins < 0).any() or margins[:, :2].any() else [int(size) for size in margins[:, 2:].ravel()]


def _together(reader: ir.Node, margins: list[int]) -> list[int]:
    """The padding of a max pool with the Pad's margins in it; empty where a window could miss the picture, which ONNX refuses."""
    plain = is_operator(reader, "MaxPool") and len(reader.outputs) == 1 and not integer(reader, "ceil_mode", 0)
    if not plain or text(reader, "auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return []
    kernel = ints(reader, "kernel_shape", ())
    both = [a + b for a, b in zip(margins, ints(reader, "pads", [0] * len(margins)), strict=True)]
    fits = all(pad < size for pad, size in zip(both, (*kernel, *kernel), strict=True))
    return both if fits and set(ints(reader, "dilations", (1,))) == {1} else []
