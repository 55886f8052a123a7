"""The result of a simulation in which nothing has happened yet."""

import numpy as np

from toolchain.timing.timeline import NOT_FETCHED, empty_result

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
