"""The one table of special values at a region's border: the float, and the stored integer that it becomes, whoever converts it."""

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from toolchain.operations.ending import Rounding

TIES = [k + 0.5 for k in (-129, -128, -3, -2, -1, 0, 1, 2, 126, 127)]
"""In stored steps."""
SUBNORMAL = float(np.finfo(np.float32).smallest_subnormal)
SPECIAL = [math.nan, -math.nan, math.inf, -math.inf, 0.0, -0.0, SUBNORMAL, -SUBNORMAL, 1e-38, -1e-38, 3.4e38, -3.4e38]


def special_values(scale: float) -> NDArray[np.float32]:
    """float32: no numbers, infinities, both zeros, subnormals, the largest, ties, limits and their neighbours. scale: of one stored step."""
    steps = np.array([*TIES, -129, -128, -127, 126, 127, 128, 255, 256, 255.5], np.float32) * np.float32(scale)
    near = [np.nextafter(steps, np.float32(end)) for end in (-np.inf, np.inf)]
    return np.concatenate([np.array(SPECIAL, np.float32), steps, *near]).astype(np.float32)


def stored_value(x: float, scale: float, ends: tuple[int, int, int], rounding: Rounding) -> int:
    """ends: least, greatest, and what stands for zero. In exact fractions, apart from the quotient, which a double holds."""
    low, high, zero = ends
    if math.isnan(x):
        return zero
    if math.isinf(x):
        return high if x > 0 else low
    exact = Fraction(x / float(np.float32(scale)))
    down = math.floor(exact)
    rest = exact - down
    tie = {"floor": False, "half_up": True, "half_even": down % 2 == 1, "half_away": x >= 0}[rounding]
    up = rounding != "floor" and (rest > 0.5 or (rest == 0.5 and tie))
    return min(max(down + up + zero, low), high)
