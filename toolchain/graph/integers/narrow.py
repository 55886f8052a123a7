"""Integer functions in float32: where every number of a call is exact there, its sums and endings take a third of the time of int64 and float64.

A number is exact in float32 where it is a whole multiple of 2**-parts of at most 24 bits. The bounds of a call follow from its constants and
attributes, operator by operator; an operator that is not known here leaves the function as it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from toolchain.graph.rewrite import constant
from toolchain.spec.arrays import Array

BITS = 24
EXACT = 1 << BITS
"""Whole numbers up to this magnitude are float32."""
LARGEST = 1 << 7
"""The magnitude of an int8; every operand of integer products is one."""
STORED = {ir.DataType.INT8: LARGEST, ir.DataType.UINT8: 2 * LARGEST - 1}
"""The magnitude of stored integers by their type; other operands, of the host, have no bound."""
NARROW = "__narrow"
"""End of the name of such a function."""
WIDE = (ir.DataType.INT32, ir.DataType.INT64, ir.DataType.DOUBLE)
ARITHMETIC = ("Add", "Clip", "Div", "Floor", "Mul", "Neg", "Round", "Sub")


@dataclass(frozen=True)
class _Bound:
    """size: the largest magnitude. parts: bits behind the point. real: computed in floating point so far. known: the value itself, of a constant."""

    size: float
    parts: int = 0
    real: bool = False
    known: Array | None = None

    @property
    def exact(self) -> bool:
        return self.size * 2.0**self.parts <= EXACT


def row_sums(weights: Array) -> int:
    """The largest sum of magnitudes of a row's weights times an operand: no sum of products is larger."""
    return _row_sum(weights) * LARGEST


def _row_sum(weights: Array) -> int:
    wide, exact = (np.int16, np.int32) if weights.dtype == np.int8 else (np.float64, np.float64)
    return int(np.abs(weights.reshape(len(weights), -1), dtype=wide).sum(1, dtype=exact).max(initial=0))


def is_exact(function: ir.Function, call: ir.Node) -> bool:
    """Whether the function of an integer call never rounds in float32. Its products are in float32 already."""
    bounds = dict[ir.Value, _Bound | None]()
    for inner, given in zip(function.inputs, call.inputs, strict=True):
        array = constant(given)
        bounds[inner] = _of_operand(given) if array is None else _of_constant(array)
    for node in function:
        given = [bounds[value] for value in node.inputs if value is not None]
        known = [each for each in given if each is not None]
        found = _bound(node, known, call.attributes) if len(known) == len(given) else None
        if found is None or not (found.exact or node.op_type == "Constant"):
            return False
        bounds[node.outputs[0]] = found
    return True


def _of_operand(value: ir.Value | None) -> _Bound | None:
    size = STORED.get(value.dtype) if value is not None and value.dtype is not None else None
    return None if size is None else _Bound(size)


def _of_constant(array: Array) -> _Bound:
    size, real = max(float(array.max(initial=0)), -float(array.min(initial=0))), array.dtype.kind == "f"
    return _Bound(size, _parts(array) if real else 0, real, array)


def _parts(array: Array) -> int:
    """Bits behind the point, at most BITS."""
    if (np.rint(array) == array).all():
        return 0
    return next((parts for parts in range(1, BITS) if (array * 2.0**parts == np.rint(array * 2.0**parts)).all()), BITS)


def _bound(node: ir.Node, given: Sequence[_Bound], attributes: Mapping[str, ir.Attr]) -> _Bound | None:
    """The bound of an operator's result; None for an operator that is not known. attributes: those of the call."""
    if node.op_type == "Constant":
        return _of_constant(_constant_of(node, attributes))
    first, other = given[0], given[-1]
    match node.op_type:
        case "Cast":
            return _cast(first, ir.DataType(node.attributes["to"].as_int()))
        case "Identity" | "Unsqueeze" | "Clip" | "Neg":
            return first
        case "BitShift" if first.known is not None and other.known is not None:
            return _of_constant(first.known.astype(np.int64) << other.known.astype(np.int64))
        case "Mul" if first.known is not None and other.known is not None:
            return _of_constant(first.known.astype(np.int64) * other.known.astype(np.int64)) if not first.parts + other.parts else None
        case "Mul":
            return _Bound(first.size * other.size, first.parts + other.parts, first.real)
        case "Add" | "Sub":
            return _Bound(first.size + other.size, max(first.parts, other.parts), first.real)
        case "Div" if first.real:
            return _quotient(first, other.known)
        case "Floor" | "Round":
            return _Bound(first.size + 1, real=True)
        case "Transpose" if first.known is not None:
            return _of_constant(first.known.transpose(node.attributes["perm"].as_ints()))
        case "Conv" | "MatMul" if other.known is not None:
            return _Bound(_row_sum(other.known if node.op_type == "Conv" else other.known.T) * first.size, real=True)
        case _:
            return None


def _cast(value: _Bound, to: ir.DataType) -> _Bound | None:
    """None where a fraction is cut off."""
    real = to.is_floating_point()
    return replace(value, real=real) if real or not value.parts else None


def _quotient(value: _Bound, divisor: Array | None) -> _Bound | None:
    """By powers of two."""
    if divisor is None or not divisor.size:
        return None
    bits = np.log2(divisor.astype(np.float64))
    return _Bound(value.size / 2.0 ** bits.min(), value.parts + int(bits.max()), real=True) if (bits == np.rint(bits)).all() else None


def _constant_of(node: ir.Node, attributes: Mapping[str, ir.Attr]) -> Array:
    ((name, given),) = node.attributes.items()
    if given.ref_attr_name is not None:
        given = attributes[given.ref_attr_name]
    return given.as_tensor().numpy() if name == "value" else np.array(given.value)


def narrow(function: ir.Function) -> ir.Function:
    """A copy in float32."""
    made = function.clone()
    made.name = f"{function.name}{NARROW}"
    for node in list(made):
        if node.op_type == "Cast" and node.attributes["to"].as_int() in WIDE:
            node.attributes["to"] = ir.AttrInt64("to", ir.DataType.FLOAT)
        elif node.op_type == "Constant" and "value" in node.attributes:
            tensor = node.attributes["value"].as_tensor()
            if tensor.dtype == ir.DataType.DOUBLE:
                node.attributes["value"] = ir.AttrTensor("value", ir.Tensor(tensor.numpy().astype(np.float32)))
        elif node.op_type in ARITHMETIC:
            _read_narrow(made, node)
    return made


def _read_narrow(function: ir.Function, node: ir.Node) -> None:
    """Casts operands that are whole numbers: attributes, and constants of the call."""
    for index, value in enumerate(node.inputs):
        maker = value.producer() if value is not None else None
        if value in function.inputs or (maker is not None and maker.op_type == "Constant" and "value_int" in maker.attributes):
            cast = ir.node("Cast", [value], {"to": ir.DataType.FLOAT.value}, num_outputs=1)
            function.insert_before(node, cast)
            node.replace_input_with(index, cast.outputs[0])
