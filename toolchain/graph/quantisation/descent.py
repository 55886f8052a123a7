"""One sweep of the descent that rounds weights (see least_squares), over a block of columns; in C where there is a compiler, else in numpy, with the
same result: all numbers are whole and below 2**53."""

import ctypes

import numpy as np

from toolchain.spec.arrays import Array, Reals
from toolchain.spec.compile import load_checker

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
