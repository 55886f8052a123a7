"""How much of a picture is enough to hold two forms of an operator against each other: what is computed the same everywhere needs few rows."""

from collections.abc import Iterator, Mapping, Sequence

import onnx_ir as ir

from toolchain.graph.rewrite import known_shape, text

LEAST = 8
"""Rows and columns that hold an inside and both edges."""
BINARY = ("Add", "Sub", "Mul", "Div")
EVERYWHERE = ("BatchNormalization", "Clip", "Constant", "Identity", "LeakyRelu", "Relu", *BINARY)
"""Operators that do the same to every row and column, whatever there are of them, if their constants do."""
Functions = Mapping[ir.OperatorIdentifier, ir.Function]


def cropped(value: ir.Value, size: int) -> tuple[int, ...]:
    """The shape of a tensor with at most so many rows and columns; all of it where size is 0."""
    shape = known_shape(value) or ()
    return (*shape[:2], *(min(extent, size) for extent in shape[2:])) if size else shape


def enough(fed: Sequence[ir.Value], nodes: Sequence[ir.Node], functions: Functions) -> int:
    """Rows and columns of operands that show whatever the nodes do; 0 where only all of them may. Convolutions have one operand: those of two
    sizes would not go together any more."""
    shapes = {known_shape(value) for value in fed}
    shape = next(iter(shapes), None)
    if len(shapes) != 1 or shape is None or len(shape) < 3:
        return 0
    reaches = [reach for node in nodes for reach in _reaches(node, functions, len(shape))]
    windowed = any(reach > 1 for reach in reaches) or any(_is_convolution(node, functions) for node in nodes)
    if 0 in reaches or (windowed and len(fed) > 1):
        return 0
    return max([LEAST, *(2 * reach for reach in reaches if reach > 1)])


def _is_convolution(node: ir.Node, functions: Functions) -> bool:
    return any(inner.op_type == "Conv" for inner in _inside(node, functions))


def _inside(node: ir.Node, functions: Functions) -> Iterator[ir.Node]:
    function = functions.get(node.op_identifier())
    yield from (node,) if function is None else function


def _reaches(node: ir.Node, functions: Functions, rank: int) -> Iterator[int]:
    """Rows or columns that one result of each operator sees; 0 for an operator of which it is not known."""
    function = functions.get(node.op_identifier())
    outer = dict(zip(function.inputs, node.inputs, strict=False)) if function else {}
    for inner in _inside(node, functions):
        given = [outer.get(value, value) if value is not None else None for value in inner.inputs]
        if inner.domain == "" and inner.op_type == "Conv" and text(inner, "auto_pad", "NOTSET") == "NOTSET":
            kernel = (known_shape(given[1]) or ())[2:]
            dilations = _dilations(inner, node) or (1,) * len(kernel)
            yield max([(size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True)], default=0)
        else:
            alike = inner.op_type not in BINARY or all(_is_even(value, rank) for value in given)
            yield int(inner.domain == "" and inner.op_type in EVERYWHERE and alike)


def _dilations(inner: ir.Node, call: ir.Node) -> tuple[int, ...]:
    """Of a convolution, which may take them from the call of the function that it stands in; nothing where neither says any."""
    found = inner.attributes.get("dilations")
    if found is not None and found.is_ref():
        found = call.attributes.get(found.ref_attr_name or "")
    return () if found is None else tuple(found.as_ints())


def _is_even(value: ir.Value | None, rank: int) -> bool:
    """Whether an operand is computed, or a constant with one value for all rows and columns."""
    if value is None or not value.is_initializer():
        return True
    shape = known_shape(value)
    return shape is not None and all(size == 1 for size in ((1,) * (rank - len(shape)) + shape)[2:])
