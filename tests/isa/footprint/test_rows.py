"""Expressions over many instructions and iterations, against plain loops in Python."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiny_machine import streams, tiny, word
from toolchain.isa.decode import decode
from toolchain.isa.footprint import rows
from toolchain.isa.footprint.footprints import BUDGET, LONGEST
from toolchain.isa.footprint.loop_nest import Exists
from toolchain.isa.footprint.rows import Iterations, Rows, iteration_count, iterations, split_long
from toolchain.isa.footprint.walk import Fold, Guard, Loop
from toolchain.isa.program import Ints
from toolchain.isa.semantics import ir
from toolchain.spec.expr import Binary, Compare, Const, Expr

MACHINE = tiny("pass\n")
A, B, N = ir.FieldRef("a"), ir.FieldRef("b"), ir.FieldRef("n")
X, Y = ir.Var("i"), ir.Var("j")
FIELDS = st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 9), st.integers(1, 5)), min_size=1, max_size=6)


def refuse(*_: object) -> Ints:
    raise AssertionError("no register is read here")


def frame_of(*fields: tuple[int, int, int]) -> Iterations:
    """A frame of one OP for each (a, b, n)."""
    program = decode(MACHINE, streams([word(0, a, b, n) for a, b, n in fields]))
    return Rows(program, 0, np.arange(len(fields)), refuse, refuse).frame()


def plus(left: Expr, right: Expr) -> Expr:
    return Binary("+", left, right)


@settings(max_examples=20, deadline=None)
@given(FIELDS)
def test_iterations_are_those_of_plain_loops(fields: list[tuple[int, int, int]]) -> None:
    path = (Loop("i", Const(0), N), Guard(Compare("<", X, B)), Loop("j", X, N))
    found = [
        x for f in iterations(frame_of(*fields), path) for x in zip(f.rows.tolist(), f.evaluate(X).tolist(), f.evaluate(Y).tolist(), strict=True)
    ]
    assert found == [(row, i, j) for row, (_, b, n) in enumerate(fields) for i in range(n) if i < b for j in range(i, n)]


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_frames_hold_at_most_so_many_rows(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "LIMIT", limit)
    frames = list(iterations(frame_of((0, 0, 5), (0, 0, 2), (0, 0, 1)), (Loop("i", A, plus(A, N)),)))
    assert max(map(len, frames)) <= limit
    assert [(r, i) for f in frames for r, i in zip(f.rows.tolist(), f.evaluate(X).tolist(), strict=True)] == [
        (0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (1, 0), (1, 1), (2, 0),
    ]  # fmt: skip


def test_a_loop_that_does_not_move_the_address_is_taken_once_with_its_count() -> None:
    (frame,) = iterations(frame_of((0, 0, 4), (0, 2, 3)), (Loop("i", Const(0), N, step=B),))
    assert frame.rows.tolist() == [0, 1, 1, 1]
    assert frame.weight is not None
    assert frame.weight.tolist() == [4, 1, 1, 1]


def test_a_fold_steps_its_names_together() -> None:
    fold = Fold("i", Const(0), N, ("x", "y"), (A, B), (ir.Var("y"), plus(ir.Var("x"), X)), "x")
    fields = [(3, 7, 1), (3, 7, 4), (-2, 0, 5)]

    def by_hand(x: int, y: int, n: int) -> int:
        for i in range(n):
            x, y = y, x + i
        return x

    assert frame_of(*fields).evaluate(fold).tolist() == [by_hand(*f) for f in fields]


def test_some_combination_of_loops_meets_every_condition() -> None:
    exists = Exists((Loop("i", Const(0), N),), (Compare("==", plus(X, A), B),))
    assert frame_of((0, 3, 4), (0, 4, 4), (1, 4, 4)).evaluate(exists).tolist() == [1, 0, 1]


@pytest.mark.parametrize(("neighbours", "count"), [(lambda step: step == 1, [1.0, 1.0, 3.0]), (lambda step: step == 2, [1.0, 3.0, 1.0])])
def test_counts_take_loops_without_a_step_and_runs_of_neighbours_once(neighbours: Callable[[Ints], rows.Flags], count: list[float]) -> None:
    frame = frame_of((0, 0, 3), (0, 1, 3), (0, 2, 3))
    assert iteration_count(frame, (Loop("i", Const(0), N, step=B),), neighbours).tolist() == count
    assert iteration_count(frame, (Loop("i", Const(0), N), Loop("j", Const(0), X)), neighbours).tolist() == [3.0, 3.0, 3.0]


def test_too_many_iterations_are_faults() -> None:
    frame = frame_of((0, 0, 1), (0, 0, 1), (0, 0, 1))
    kept, faults = split_long(frame, np.array([1.0, LONGEST + 1.0, float(LONGEST)]), 5)
    assert kept.rows.tolist() == [0, 2]
    assert (faults.instruction.tolist(), faults.access.tolist(), faults.kind.tolist()) == ([1], [5], [BUDGET])
