"""The event simulation in Python and the one in C give the same bits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.random_tokens import any_net, coupled_net, pair_net
from tests.timing.test_simulate import any_costs, costs, run
from toolchain.timing.event_run import NOT_FETCHED, SimulationResult, empty_result, run_events
from toolchain.timing.simulate import simulate


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


TIMES = ("start", "end", "released", "freed")


def test_times_begin_at_zero_and_indices_at_none() -> None:
    found = empty_result(3)
    for name, column in vars(found).items():
        assert (len(column), column.dtype) == (3, np.float64 if name in TIMES else np.int64), name
        assert set(column.tolist()) == {0.0 if name in TIMES else -1}, name
    assert NOT_FETCHED not in found.counter


def test_no_two_columns_share_memory() -> None:
    columns = list(vars(empty_result(3)).values())
    assert not any(np.shares_memory(one, other) for k, one in enumerate(columns) for other in columns[:k])
