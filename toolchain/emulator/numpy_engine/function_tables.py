"""Functions of all values of a format of at most 16 bits, correctly rounded, as tables: the same numbers in arrays and in C."""

import functools

import numpy as np
from numpy.typing import NDArray

from toolchain.emulator.numpy_engine.formats import encode, exact
from toolchain.spec.float_functions import FUNCTIONS
from toolchain.spec.model import FloatType

DOUBT = 2.0**-47
"""A bit more than the error of the math library in toolchain/spec/float_functions.py, whose proof this is in doubles."""


@functools.cache
def function_table(name: str, kind: FloatType) -> NDArray[np.int64]:
    """[2**bits] signed bits of the function of each code from 0 up. Raises ArithmeticError where rounding is not proved."""
    function = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        values = np.array([function(x) for x in exact(np.arange(1 << kind.bits), kind).tolist()], np.float64)
        low, high = encode(values * (1 - DOUBT), kind), encode(values * (1 + DOUBT), kind)
    if not np.array_equal(low, high):
        raise ArithmeticError(f"{name} of {kind} is not proved to be rounded correctly")
    return low
