"""The time of units that work side by side, for ranking; timing decides."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
FRICTION = 1 / 16
"""The share of the other units' work that does not hide behind the busiest one."""


def overlapped(busy: Sequence[Floats] | Sequence[float], ends: Floats | float, contexts: int = 2) -> Floats:
    """Cycles: those of the busiest unit, a part of the others' work, and the ends that no work hides; with one context everything in turn.

    busy: by unit.
    """
    together, longest = np.add.reduce(busy), np.maximum.reduce(busy)
    return together if contexts == 1 else longest + ends + (together - longest) * FRICTION
