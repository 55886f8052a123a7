"""One sweep of the descent that rounds weights (see least_squares), over a block of columns; in C where there is a compiler, else in numpy, with the
same result: all numbers are whole and below 2**53."""

import ctypes

import numpy as np

from toolchain.spec.arrays import Array, Reals
from toolchain.spec.compile import load_checker

NARROW = 32
"""Columns of a block whose steps reach each other one by one."""
ROWS = 8
"""Rows of weights that the C copies at once."""


def descend(stored: Reals, slopes: Reals, inner: Reals, limits: tuple[int, int], fine: int) -> Reals:
    """The steps to take, [columns, rows]. stored: weights of the same shape, within the limits. slopes: of their error, in parts of a step times H;
    they may be written over. inner: [columns, columns], H. fine: parts of a step."""
    diagonal, library = np.maximum(np.diagonal(inner), 1.0) * fine, load_checker("descent")
    if library is None:
        return _in_numpy(stored, slopes, inner * fine, diagonal, limits)
    steps, room = np.zeros(slopes.shape), np.empty((ROWS, len(slopes)))
    known = inner if inner.strides[1] == inner.itemsize else np.ascontiguousarray(inner)
    sizes = (ctypes.c_int64(size) for size in (*slopes.shape, known.strides[0] // known.itemsize))
    numbers = (ctypes.c_double(number) for number in (fine, *limits))
    given = [np.ascontiguousarray(each) for each in (stored, slopes)]
    library.descend(*sizes, *(_pointer(each) for each in (*given, known, diagonal)), *numbers, _pointer(steps), _pointer(room))
    return steps


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
