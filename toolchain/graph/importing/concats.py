"""Concatenations that begin with another one take its result: Concat(a, b, c) after Concat(a, b) becomes Concat(Concat(a, b), c).

Dense networks join all results so far before every layer. Written so, each tensor is part of one concatenation alone, and can be stored as such.
"""

import onnx_ir as ir

from toolchain.graph.nodes.rewrite import integer, is_operator

Operands = tuple[ir.Value | None, ...]


def chain_concats(model: ir.Model) -> None:
    """Changes operands in place; results, names and the order of the operators stay."""
    made: dict[tuple[int, Operands], ir.Value] = {}
    for node in model.graph:
        if is_operator(node, "Concat") and len(node.inputs) > 1:
            axis, operands = integer(node, "axis", 0), tuple(node.inputs)
            _shorten(node, axis, made)
            made.setdefault((axis, operands), node.outputs[0])


def _shorten(node: ir.Node, axis: int, made: dict[tuple[int, Operands], ir.Value]) -> None:
    """By the longest beginning that is there already."""
    operands = tuple(node.inputs)
    for count in range(len(operands) - 1, 1, -1):
        joined = made.get((axis, operands[:count]))
        if joined is not None:
            rest = operands[count:]
            node.resize_inputs(1 + len(rest))
            for place, value in enumerate((joined, *rest)):
                node.replace_input_with(place, value)
            return
