"""Operands that must be scalars, written as such.

ONNX Runtime computes a Range of tensors with one element, but refuses a model that declares them.
"""

import onnx
from onnx import helper

from toolchain.graph.nodes.rewrite import is_operator
from toolchain.graph.nodes.tensor_shapes import Shapes


def write_scalars(graph: onnx.GraphProto, shapes: Shapes) -> bool:
    """Squeezes every operand of a Range that has one axis; whether there was one."""
    inserted: list[tuple[int, onnx.NodeProto]] = []
    for number, node in enumerate(graph.node):
        if not is_operator(node, "Range"):
            continue
        for place, name in enumerate(node.input):
            if shapes.get(name) == (1,):
                scalar = f"{node.output[0]}/operand{place}"
                inserted.append((number, helper.make_node("Squeeze", [name], [scalar], scalar)))
                node.input[place] = scalar
    for number, node in reversed(inserted):
        graph.node.insert(number, node)
    return bool(inserted)
