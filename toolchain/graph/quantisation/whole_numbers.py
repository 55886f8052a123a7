"""Whole numbers for least_squares and statistics, quickly: exact products of matrices, and one sweep of the descent that rounds weights.

Products of numbers of 16 bits are made in C where there is a compiler, in a third of the time of one in float64. Those of bytes are ONNX Runtime's on
a processor that multiplies bytes, and where there is no compiler; all others float64's. The quick product of unsigned by signed bytes is exact with
instructions for products of bytes alone (VNNI). AVX2 without them adds up pairs of products in 16 bits, which overflow: there both operands go in
without sign.

The sweep goes over a block of columns; in C where there is a compiler, else in numpy, with the same result: all numbers are whole and below 2**53.
"""

import ctypes
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
"""Values of a byte."""
STORED = (np.dtype(np.int8), np.dtype(np.int16))
MOST = (1 << 15) - 1
"""The largest number of 16 bits."""
LEAST_DEPTH = 32
"""Products that are added up in 32 bits; where fewer fit, float64 is quicker."""


def whole_products(one: Array, other: Array) -> Reals:
    """[m, n] of [m, k] and [k, n], exact: whole numbers, whose sums stay below 2**53. Of int8 and int16 quickly, of others in float64."""
    bytes_alone = one.dtype == np.int8 and other.dtype == np.int8
    if len(one) * other.size >= SMALL and one.dtype in STORED and other.dtype in STORED:
        library = None if bytes_alone and takes_signs() else load_checker("products")
        depth = _depth(one, other) if library is not None else 0
        if library is not None and depth >= LEAST_DEPTH and (found := _products_in_c(library, one, other, depth)) is not None:
            return found
        if bytes_alone:
            return _products_of_bytes(one, other)
    return np.matmul(one.astype(np.float64), other.astype(np.float64))


def _products_of_bytes(one: Array, other: Array) -> Reals:
    found = np.zeros((len(one), other.shape[1]))
    for first in range(0, len(other), LONGEST):
        part = slice(first, first + LONGEST)
        found += multiplied(one[:, part], other[part])
    return found


def _depth(one: Array, other: Array) -> int:
    """How many products of the numbers of two operands add up to less than 2**31."""
    return (2**31 - 1) // max(_largest(one) * _largest(other), 1)


def _largest(values: Array) -> int:
    """The largest magnitude that they have, or that a byte has."""
    return BYTES // 2 if values.dtype == np.int8 else max(int(values.max(initial=0)), -int(values.min(initial=0)))


def _products_in_c(library: ctypes.CDLL, one: Array, other: Array, depth: int) -> Reals | None:
    """None where there is no room for them."""
    found, given = np.zeros((len(one), other.shape[1])), [each.astype(np.int16, copy=False) for each in (one, other)]
    steps = np.array([step // each.itemsize for each in given for step in each.strides], np.int64)
    sizes = (ctypes.c_int64(size) for size in (*found.shape, len(other), depth))
    done = library.products(*sizes, *(_pointer(each) for each in (*given, steps, found)))
    return found if done else None


def units_of(rows: Reals, bits: int) -> Reals:
    """[..., 1]: for each row a power of two, in which the largest of its numbers has so many bits. rows: [..., k]."""
    largest = np.maximum(rows.max(-1, initial=0.0), -rows.min(-1, initial=0.0))
    return np.ldexp(1.0, np.where(largest > 0, np.frexp(largest)[1], bits) - bits)[..., None]


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
"""Rows of weights that the C takes at once."""


def descend(stored: Reals, slopes: Reals, inner: Array, limits: tuple[int, int], fine: int) -> Reals:
    """The steps to take, [columns, rows]. stored: weights of the same shape, within the limits. slopes: of their error, in parts of a step times H;
    they may be written over. inner: [columns, columns] int16, H. fine: parts of a step."""
    diagonal, library = np.maximum(np.diagonal(inner), 1) * float(fine), load_checker("descent")
    if library is None:
        return _in_numpy(stored, slopes, inner * float(fine), diagonal, limits)
    steps = np.zeros(slopes.shape)
    for start in range(0, len(slopes), PART):
        some = slice(start, min(start + PART, len(slopes)))
        left = slopes[some] + whole_products(inner[some, :start], steps[:start].astype(np.int16)) * fine if start else slopes[some]
        _in_c(library, stored[some], left, inner[some, some], diagonal[some], (fine, *limits), steps[some])
    return steps


def _in_c(library: ctypes.CDLL, stored: Reals, left: Reals, inner: Array, diagonal: Reals, numbers: tuple[int, int, int], steps: Reals) -> None:
    """Sets the steps of a part. numbers: parts of a step, and the limits."""
    known, room = inner if inner.strides[1] == inner.itemsize else np.ascontiguousarray(inner), np.empty((ROWS + 1, len(left)))
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
