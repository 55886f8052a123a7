"""The token simulation in Python ends where the one in C does, whatever the net."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.random_tokens import Net, any_net, pair_net
from toolchain.analysis.order import simulate
from toolchain.analysis.token_run import run_tokens


@settings(max_examples=40, deadline=None)
@given(any_net(), st.one_of(st.none(), st.integers(0, 2**64 - 1)))
def test_c_and_python_end_in_the_same_state(case: Net, seed: int | None) -> None:
    table = case.table
    native, plain = simulate(table, case.tokens, seed), run_tokens(table, case.tokens, seed)
    for name in ("order", "tokens", "head", "fetched", "posted"):
        assert np.array_equal(getattr(native, name), getattr(plain, name)), name
    assert native.lost == plain.lost


def test_without_a_compiler_python_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    case = pair_net(2000, 1, depth=2)
    order = simulate(case.table, case.tokens, 5).order
    monkeypatch.setenv("TILEWRIGHT_CC", "none")
    assert np.array_equal(simulate(case.table, case.tokens, 5).order, order)
