"""A stream whose queues are short holds its instructions in the order in which they start."""

import pytest

from tests.schedule.cells import EVERY, Op, cells, memory, program
from tests.schedule.laws import derive
from toolchain.analysis.checks import prepare_program
from toolchain.timing.simulate import time_program

A, B = range(2)
FAR = [Op(A, 0, k) for k in (1, 2, 3, 4)] + [Op(B, k, 5 + k) for k in (9, 1, 2, 3)]
"""Four instructions of a, then four of b, the first of which needs none of them."""


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_what_starts_early_is_not_fetched_late(depth: int) -> None:
    machine = cells(EVERY, depth=depth)
    found = derive(program(machine, FAR), memory(machine), (None, 1, 2))
    assert (list(found.source) == sorted(found.source)) == (not depth)
    checked = prepare_program(found.program, memory(machine))
    free = cells(EVERY)
    ideal = derive(program(free, FAR), memory(free), (None,)).program
    least = prepare_program(ideal, memory(free))
    times = [time_program(p, c.footprints, c.provenance, c.tokens).cycles for p, c in ((found.program, checked), (ideal, least))]
    assert times[0] == times[1]


def test_an_interlock_goes_by_the_order_of_the_stream() -> None:
    machine = cells(EVERY, depth=1, nops="abc", interlock="{pairs: [{from: a, to: b}]}")
    assert list(derive(program(machine, FAR), memory(machine)).source) == list(range(len(FAR) + 1))
