"""A graph region in float16: casts at its border, constants rounded, the operators the same."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnx_ir as ir

from toolchain.graph.regions import GraphRegion
from toolchain.spec.arrays import Array

SUFFIX = ".half"
FIRST = 0
"""The operand whose type is the one that an operator computes in."""


def half_region(region: GraphRegion) -> GraphRegion:
    """The region with the same border in float32. Numbers beyond float16's range become infinite, as in any engine of it."""
    made = _Half(region)
    nodes = (*made.casts_in(), *(made.node(node) for node in region.nodes), *made.casts_out())
    used = {value.name for node in nodes for value in node.inputs if value is not None}
    constants = {name: array for name, array in made.constants.items() if name in used}
    return GraphRegion(region.name, region.inputs, region.outputs, nodes, constants, region.opset)


@dataclass
class _Half:
    """constants: those of the region, and the rounded ones beside them."""

    region: GraphRegion
    constants: dict[str, Array] = field(default_factory=dict[str, Array])

    def __post_init__(self) -> None:
        self.constants |= self.region.constants

    def casts_in(self) -> Iterator[ir.Node]:
        for tensor in self.region.inputs:
            yield _cast(tensor.name, f"{tensor.name}{SUFFIX}", ir.DataType.FLOAT16)

    def casts_out(self) -> Iterator[ir.Node]:
        for tensor in self.region.outputs:
            yield _cast(f"{tensor.name}{SUFFIX}", tensor.name, ir.DataType.FLOAT)

    def node(self, node: ir.Node) -> ir.Node:
        computed = _computed(node)
        inputs = [value and _value(self.operand(value, number in computed)) for number, value in enumerate(node.inputs)]
        outputs = [_value(f"{value.name}{SUFFIX}" if value.name else "") for value in node.outputs]
        return ir.Node(node.domain, node.op_type, inputs, list(node.attributes.values()), outputs=outputs, name=node.name)

    def operand(self, value: ir.Value, computed: bool) -> str:
        """The name of an operand: of computed tensors the one in float16; constants are rounded where the operator computes with them."""
        name = value.name or ""
        held = self.region.constants.get(name)
        if held is None:
            return f"{name}{SUFFIX}" if name else ""
        if not computed or held.dtype != np.float32:
            return name
        with np.errstate(over="ignore"):
            self.constants[f"{name}{SUFFIX}"] = held.astype(np.float16)
        return f"{name}{SUFFIX}"


def _computed(node: ir.Node) -> frozenset[int]:
    """The operands that have the type of the first: not the factors of a Resize, which are float32 whatever it resizes."""
    formal = onnx.defs.get_schema(node.op_type).inputs
    kinds: Mapping[int, str] = {number: formal[min(number, len(formal) - 1)].type_str for number in range(len(node.inputs))}
    return frozenset(number for number, kind in kinds.items() if kind == kinds[FIRST])


def _cast(source: str, target: str, kind: ir.DataType) -> ir.Node:
    return ir.Node("", "Cast", [_value(source)], [ir.AttrInt64("to", int(kind))], outputs=[_value(target)], name=f"{target}.cast")


def _value(name: str) -> ir.Value:
    return ir.Value(name=name)
