"""Whole numbers for least_squares, quickly: exact products of matrices, and one sweep of the descent that rounds weights.

Products are ONNX Runtime's of bytes, which take an eighth of the time of one in float64 on a processor that multiplies bytes and half of it on
others, else float64's. The quick product of unsigned by signed bytes is exact with instructions for products of bytes alone (VNNI). AVX2 without
them adds up pairs of products in 16 bits, which overflow: there both operands go in without sign.

The sweep goes over a block of columns; in C where there is a compiler, else in numpy, with the same result: all numbers are whole and below 2**53.
"""

import ctypes
from collections.abc import Sequence
from functools import cache

import numpy as np
from onnx import TensorProto, helper

from toolchain.graph.session import ONCE, Session, open_session, run_session
from toolchain.spec.arrays import Array, Reals
from toolchain.spec.compile import load_checker

LONGEST = 1 << 15
"""Products of two int8 whose sum an int32 holds with room to spare; of more, part by part."""
SMALL = 1 << 20
"""Multiply-accumulates below which a product takes less time than to ask for it."""
BYTES = 256
"""Values of a digit, from -BYTES / 2 to BYTES / 2 - 1."""
LARGEST = BYTES**2 // 2 - BYTES
"""Whole numbers up to this magnitude have two digits."""


def whole_products(one: Array, other: Array) -> Reals:
    """[m, n] of [m, k] and [k, n], exact: whole numbers of at most 16 bits, whose sums stay below 2**53."""
    if one.dtype != np.int8 or other.dtype != np.int8 or len(one) * other.size < SMALL:
        return np.matmul(one.astype(np.float64), other.astype(np.float64))
    found = np.zeros((len(one), other.shape[1]))
    for first in range(0, len(other), LONGEST):
        part = slice(first, first + LONGEST)
        found += multiplied(one[:, part], other[part])
    return found


def digits_of(values: Array) -> tuple[Array, Array]:
    """high and low, int8: high * BYTES + low are the values, whole numbers of at most LARGEST."""
    whole = values.astype(np.int16)
    low = whole.astype(np.int8)
    return ((whole - low) >> 8).astype(np.int8), low


def joined_digits(products: Sequence[Reals]) -> Reals:
    """The products of numbers by those of their high and low digits."""
    high, low = products
    return high * BYTES + low


def multiplied(one: Array, other: Array) -> Array:
    """The first operand goes in without sign, the second with one where that is exact."""
    return _run(one, other, takes_signs())


@cache
def takes_signs() -> bool:
    """Whether this processor's product of unsigned by signed bytes is exact where pairs of products are largest."""
    one, other = np.full((64, 64), BYTES // 2 - 1, np.int8), np.full((64, 64), BYTES // 2 - 1, np.int8)
    return bool((_run(one, other, True) == 64 * (BYTES // 2 - 1) ** 2).all())


def _run(one: Array, other: Array, signed: bool) -> Array:
    given = {"one": _unsigned(one), "other": np.ascontiguousarray(other) if signed else _unsigned(other)}
    return run_session(_session(signed), given)["products"]


def _unsigned(values: Array) -> Array:
    """int8 as uint8, of which BYTES / 2 stands for zero."""
    return np.ascontiguousarray(values).view(np.uint8) ^ np.uint8(BYTES // 2)


@cache
def _session(signed: bool) -> Session:
    """signed: whether the second operand has a sign."""
    zero = helper.make_tensor("zero", TensorProto.UINT8, (), [BYTES // 2])
    node = helper.make_node("MatMulInteger", ["one", "other", "zero", *([] if signed else ["zero"])], ["products"])
    other = TensorProto.INT8 if signed else TensorProto.UINT8
    shapes = {"one": (TensorProto.UINT8, "mk"), "other": (other, "kn"), "products": (TensorProto.INT32, "mn")}
    *inputs, output = (helper.make_tensor_value_info(name, dtype, list(axes)) for name, (dtype, axes) in shapes.items())
    graph = helper.make_graph([node], "products", inputs, [output], [zero])
    return open_session(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString(), threads=ONCE)


NARROW = 32
"""Columns of a block whose steps reach each other one by one, in numpy."""
PART = 128
"""The same in C, which holds so many slopes of ROWS rows in the nearest cache; later columns get the steps of a part in one product."""
ROWS = 8
"""Rows of weights that the C copies at once."""


def descend(stored: Reals, slopes: Reals, inner: Reals, limits: tuple[int, int], fine: int) -> Reals:
    """The steps to take, [columns, rows]. stored: weights of the same shape, within the limits. slopes: of their error, in parts of a step times H;
    they may be written over. inner: [columns, columns], H. fine: parts of a step."""
    diagonal, library = np.maximum(np.diagonal(inner), 1.0) * fine, load_checker("descent")
    if library is None:
        return _in_numpy(stored, slopes, inner * fine, diagonal, limits)
    steps = np.zeros(slopes.shape)
    for start in range(0, len(slopes), PART):
        some = slice(start, min(start + PART, len(slopes)))
        left = slopes[some] + inner[some, :start] @ steps[:start] * fine if start else slopes[some]
        _in_c(library, stored[some], left, inner[some, some], diagonal[some], (fine, *limits), steps[some])
    return steps


def _in_c(library: ctypes.CDLL, stored: Reals, left: Reals, inner: Reals, diagonal: Reals, numbers: tuple[int, int, int], steps: Reals) -> None:
    """Sets the steps of a part. numbers: parts of a step, and the limits."""
    known, room = inner if inner.strides[1] == inner.itemsize else np.ascontiguousarray(inner), np.empty((ROWS, len(left)))
    sizes = (ctypes.c_int64(size) for size in (*left.shape, known.strides[0] // known.itemsize))
    given = [np.ascontiguousarray(each) for each in (stored, left)]
    pointers = [_pointer(each) for each in (*given, known, diagonal)]
    library.descend(*sizes, *pointers, *(ctypes.c_double(number) for number in numbers), _pointer(steps), _pointer(room))


def _in_numpy(stored: Reals, left: Reals, pushes: Reals, diagonal: Reals, limits: tuple[int, int]) -> Reals:
    """left: the slopes, which it changes. pushes: by a step of each column, on all columns."""
    steps = np.zeros(left.shape)
    for start in range(0, len(left), NARROW):
        some = slice(start, min(start + NARROW, len(left)))
        left[some] += pushes[some, :start] @ steps[:start]
        for k in range(start, some.stop):
            mine = left[k] + pushes[k, start:k] @ steps[start:k]
            wanted = stored[k] - np.rint(mine / diagonal[k])
            steps[k] = np.minimum(np.maximum(wanted, limits[0]), limits[1]) - stored[k]
    return steps


def _pointer(array: Array) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
