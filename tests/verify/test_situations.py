"""Situations: how the parts of expressions come out, and how much a further program adds."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.schedule.convolutions import convolution
from toolchain.isa.columns import evaluate_rows
from toolchain.operations.library import kinds_of
from toolchain.schedule.kernels.frame import Frame
from toolchain.schedule.kernels.kernel import Formula
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.kernels.problem import Problem, state_problem
from toolchain.schedule.tiling.tiles import rank_tilings
from toolchain.spec.arrays import Ints
from toolchain.spec.errors import Source, Span
from toolchain.spec.expr import Expr, Name, parse_expr
from toolchain.spec.load import load_machine
from toolchain.verify.kernel_check import operations_for
from toolchain.verify.situations import (
    NEAR,
    RESIDUES,
    WORTH,
    Seen,
    Watcher,
    apart,
    cuts_of,
    differences,
    exchanged,
    of_problem,
    of_tiling,
    rarest_tiling,
    rests,
    worth,
)


def parse(text: str) -> Expr:
    source = Source("t", text)
    return parse_expr(text, lambda line, column: Span(source, line, column + 1))


def outcomes(text: str, **names: int | Ints) -> set[object]:
    """How the outermost part of an expression came out for these names."""
    expr, watcher = parse(text), Watcher()
    count = max(np.size(value) for value in names.values())
    Frame(count, names.__getitem__, evaluate=watcher.rows).value(Formula(expr, frozenset()))
    return {key[2] for key in watcher.found if key[0] == id(expr)}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a < 4", {-2, -1, 0, 1, 2}),
        ("a // 3", {(3, 0), (3, 1), (3, 2)}),
        ("a % 100", {(RESIDUES + 1, 0), (RESIDUES + 1, 1)}),
        ("ceil_div(a, 2)", {(2, 0), (2, 1)}),
        ("min(a, 5)", {(0, 1, -1), (0, 1, 0), (0, 1, 1)}),
        ("a + 0", set[object]()),
        ("a - 1", {"both"}),
    ],
)
def test_parts_of_an_expression(text: str, wanted: set[object]) -> None:
    assert outcomes(text, a=np.arange(8)) == wanted


def test_sides_that_are_not_taken_are_not_seen() -> None:
    expr = parse("a // 2 if b else a // 3")
    watcher = Watcher()
    Frame(1, {"a": 7, "b": 0}.__getitem__, evaluate=watcher.rows).value(Formula(expr, frozenset()))
    assert {key[2] for key in watcher.found} == {False, (3, 1)}


@given(st.lists(st.integers(-9, 9), min_size=1), st.lists(st.integers(1, 40), min_size=1))
def test_columns_come_out_as_their_rows_do(left: list[int], right: list[int]) -> None:
    pairs = [(a, b) for a in left for b in right]
    a, b = (np.array(side) for side in zip(*pairs, strict=True))
    assert set(differences(a, b)) == {each for pair in pairs for each in differences(*pair)}
    assert set(rests(a, b)) == {each for pair in pairs for each in rests(*pair)}
    assert all(abs(each) <= NEAR for each in differences(a, b))


@given(st.integers(-50, 50), st.integers(0, 50))
def test_watching_changes_no_value(a: int, b: int) -> None:
    expr = parse("max(a, b) - (a // 7 if a < b and b % 3 else ceil_div(b, 4))")
    names = {"a": a, "b": b}
    frames = [Frame(1, names.__getitem__, evaluate=each) for each in (evaluate_rows, Watcher().rows)]
    assert len({frame.value(Formula(expr, frozenset())) for frame in frames}) == 1


def test_a_situation_is_worth_half_when_it_comes_again() -> None:
    seen = Seen([("one",), ("one",), ("two",)])
    assert worth({("one",), ("two",), ("three",)}, seen) == WORTH // 4 + WORTH // 2 + WORTH


def drawn(target: str, name: str, count: int) -> list[Problem]:
    machine = load_machine(target)
    kernel = load_kernels(machine)[name]
    found = operations_for(machine, kernel, kinds_of(machine)[kernel.computes], np.random.default_rng(0))
    return list(islice((problem for problem in found if problem is not None), count))


def test_derived_numbers_are_told_from_those_of_the_other_axis() -> None:
    (problem,) = drawn("dnnvm", "conv_transpose", 1)
    side = problem.kernel.let["side"]
    others = [other for expr, other in exchanged(problem) if expr is side]
    from toolchain.spec.expr import walk

    named = [{each.id for each in walk(other) if isinstance(each, Name)} for other in others]
    assert any({"kw", "dw", "sh"} <= names for names in named)
    assert len(others) == 4


def test_smaller_tiles_bring_about_more() -> None:
    """A picture in one tile has no place behind its first."""
    problem = next(each for each in drawn("dnnvm", "max_pool", 20) if each.extents["ow"] > 4)
    tilings = rank_tilings(problem, 1, 1 << 30)
    whole, cut = (next(each for each in tilings if (each.sizes["ow"] == problem.extents["ow"]) == one) for one in (True, False))
    assert of_tiling(problem, cut) - of_tiling(problem, whole)
    assert not of_problem(problem) & of_tiling(problem, whole)


def test_two_dimensions_are_looked_at_together() -> None:
    """A tile of a part of the input's channels and of several blocks of the output's is seen, though each of the two was."""
    machine = load_machine("stcp920")
    problem = state_problem(machine, load_kernels(machine)["strided"], convolution((1, 70, 9, 9), (70, 1, 1), strides=(2, 2)))
    ranked = rank_tilings(problem, 1, 1 << 30)
    both = [each for each in ranked if each.sizes["c"] > 1 and each.sizes["i"] < problem.extents["i"]]
    others = [each for each in ranked if each not in both]
    seen = Seen(key for each in others for key in of_tiling(problem, each))
    assert others
    assert rarest_tiling(problem, [*others[:8], both[0], *others[8:16]], seen) == both[0]
    assert cuts_of(problem, both[0]) <= of_tiling(problem, both[0])


def test_no_tiling_of_none() -> None:
    (problem,) = drawn("dnnvm", "max_pool", 1)
    assert rarest_tiling(problem, [], Seen()) is None


def test_a_number_too_large_is_not_one_too_small() -> None:
    """Too many columns before a tile do no harm; too few do."""
    problems = drawn("dnnvm", "conv_transpose", 60)
    side = problems[0].kernel.let["side"]
    places = {apart(other) for expr, other in exchanged(problems[0]) if expr is side}
    found = {key[2] for problem in problems for key in of_problem(problem) if key[0] in places}
    assert found >= {-1, 1}


def test_how_far_a_window_reaches_beyond_its_picture() -> None:
    for problem in drawn("dnnvm", "conv2d", 30):
        numbers = problem.operation.numbers
        last = (numbers["out_width"] - 1) * numbers["sw"] + (numbers["kw"] - 1) * numbers["dw"] + 1 - numbers["pad_left"] - numbers["width"]
        assert (("beyond", "w"), None, max(-NEAR, min(last, NEAR))) in of_problem(problem)
