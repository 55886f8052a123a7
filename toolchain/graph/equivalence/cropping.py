"""How much of a picture is enough to hold two forms of an operator against each other: what is computed the same everywhere needs few rows."""

from collections.abc import Iterator, Mapping, Sequence
from math import lcm, prod
from typing import NamedTuple

import onnx_ir as ir

from toolchain.graph.nodes.rewrite import known_shape, text

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
