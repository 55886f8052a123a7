"""The time of every instruction and the cause of its waiting."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolchain.isa.program import Ints

Times = NDArray[np.float64]


NOT_FETCHED = -2
"""In `counter`: the instruction came late, because an earlier one did not fit into its queue until `producer` started."""


@dataclass(frozen=True)
class SimulationResult:
    """The output of the event simulation; times in cycles, float64 [n]; indices int64 [n], -1 for none.

    start, end: when the unit was taken and when the work was done. released: when the unit was free again, later than end
    where a full counter held it, or a coupled unit that still fed it. freed: when the unit became free for this instruction.
    order: instructions as they started; shorter than n after a deadlock.
    counter, producer: the last counter that this instruction waited for while its unit was idle, and whose token came.
    slowest: the resource instance whose transfer ended last, -1 where the ports of banks took longer. room_counter, room_by: the full counter that
    held the unit, and the instruction that made room.
    """

    start: Times
    end: Times
    released: Times
    freed: Times
    order: Ints
    counter: Ints
    producer: Ints
    slowest: Ints
    room_counter: Ints
    room_by: Ints


def empty_result(n: int) -> SimulationResult:
    a, b, c, d = (np.zeros(n, np.float64) for _ in range(4))
    e, f, g, h, i, j = (np.full(n, -1, np.int64) for _ in range(6))
    return SimulationResult(a, b, c, d, e, f, g, h, i, j)
