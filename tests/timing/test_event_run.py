"""The event simulation in Python and the one in C give the same bits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.random_tokens import any_net, coupled_net, pair_net
from tests.timing.test_simulate import any_costs, costs, run
from toolchain.timing.event_run import run_events
from toolchain.timing.simulate import simulate
from toolchain.timing.timeline import SimulationResult


def same(one: SimulationResult, two: SimulationResult) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(vars(one).values(), vars(two).values(), strict=True))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_c_and_python_give_the_same_bits(data: st.DataObject) -> None:
    case = data.draw(st.one_of(any_net(), coupled_net()))
    cost, fair = data.draw(any_costs(len(case.queue)))
    table = case.table
    assert same(simulate(table, case.tokens, cost, fair), run_events(table, case.tokens, cost, fair))


def test_without_a_compiler_python_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    case, cost = pair_net(500, 4), costs(np.arange(500) % 17)
    native = run(case, cost)
    monkeypatch.setenv("TILEWRIGHT_CC", "none")
    assert same(native, run(case, cost))
