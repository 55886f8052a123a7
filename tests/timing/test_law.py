"""Time never changes results: whatever the costs, running the instructions as they start leaves the golden memory."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.emulator.reference.test_engine import GOLDEN, vta_result
from toolchain.isa.program import Ints, Program, program_queues
from toolchain.isa.sync_tokens import sync_tokens
from toolchain.timing.cost import Costs, ResourcePorts
from toolchain.timing.simulate import simulate


def random_costs(n: int, seed: int) -> Costs:
    """Latencies of any size, every instruction through one shared port."""
    random = np.random.default_rng(seed)
    setup, cycles, latency, work = (random.integers(0, 10 ** random.integers(1, 5), n) for _ in range(4))
    first = np.arange(n + 1)
    zeros = np.zeros(n, np.int64)
    return Costs(setup, cycles, latency, ResourcePorts(("port",), zeros[:1]), first, zeros, work, work, zeros)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(p, id=p.stem, marks=pytest.mark.nightly if p.stem in ("r01_ordered", "r13_shuffled") else ())  # of a second seed
        for p in GOLDEN
        if p.stem[0] in "rc"
    ],
)
def test_random_latencies_leave_the_same_memory(path: Path, seed: int) -> None:
    def by_start(program: Program) -> Ints:
        return simulate(program_queues(program), sync_tokens(program), random_costs(len(program), seed), [bool(seed % 2)]).order

    assert vta_result(path, by_start)


def test_the_orders_differ() -> None:
    """Else the test above would show nothing."""
    orders: set[tuple[int, ...]] = set()

    def collect(program: Program) -> Ints:
        for seed in range(1, 4):
            orders.add(tuple(simulate(program_queues(program), sync_tokens(program), random_costs(len(program), seed), [False]).order.tolist()))
        return np.array(min(orders), np.int64)

    path = next(p for p in GOLDEN if p.stem.startswith("c02"))
    assert vta_result(path, collect)
    assert len(orders) > 1


def test_a_machine_that_takes_no_time_computes_the_same() -> None:
    def compare(program: Program) -> Ints:
        tokens, table = sync_tokens(program), program_queues(program)
        nothing = random_costs(len(program), 0)
        zeros = np.zeros(len(program), np.int64)
        free = replace(nothing, setup=zeros, cycles=zeros, latency=zeros, work=zeros)
        return simulate(table, tokens, free, [False]).order

    assert vta_result(next(p for p in GOLDEN if p.stem.startswith("r13")), compare)
