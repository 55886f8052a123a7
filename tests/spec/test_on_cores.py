"""Pieces on several processors: results in order, the first error, halves that cover everything."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.spec import on_cores as module
from toolchain.spec.on_cores import halves, on_cores


@pytest.mark.parametrize("processors", [1, 2, 5])
def test_results_stand_in_the_order_of_the_pieces(processors: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "processors", lambda: processors)
    assert on_cores(lambda piece: piece * 2, range(20)) == list(range(0, 40, 2))
    assert on_cores(str, []) == []


def test_two_pieces_at_once_where_there_are_two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "processors", lambda: 2)
    meet = threading.Barrier(2, timeout=20)
    assert sorted(on_cores(lambda _: meet.wait(), range(2))) == [0, 1]


def test_the_first_error_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "processors", lambda: 2)
    made = list[int]()

    def make(piece: int) -> None:
        made.append(piece)
        if piece == 0:
            raise ValueError("zero")

    with pytest.raises(ValueError, match="zero"):
        on_cores(make, range(100_000))
    assert len(made) < 100_000


@given(st.integers(0, 100), st.integers(1, 40))
def test_halves_cover_everything_once(count: int, least: int) -> None:
    parts = list(halves(count, least))
    assert [number for part in parts for number in range(count)[part]] == list(range(count))
    assert len(parts) == (2 if count >= 2 * least else 1)
    assert len(parts) == 1 or min(len(range(count)[part]) for part in parts) >= least - 1
