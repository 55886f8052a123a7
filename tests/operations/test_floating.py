"""Floating arithmetic against definitions in loops of single numbers, its order against other orders, and choices by their bits."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolchain.operations.float_stages import blocks_of
from toolchain.operations.floating import Bounds, activation_bounds, compute, evaluate_call, number_bounds, order_of, ordered
from toolchain.operations.library import builtin_kinds
from toolchain.operations.numbers import numbers_of
from toolchain.spec.arrays import Array
from toolchain.spec.errors import Source, Span, UserError
from toolchain.spec.expr import Expr, parse_expr
from toolchain.spec.model.quantisation import Floats, SumOrder

KINDS = builtin_kinds()
F16, F32 = np.float16, np.float32


def expr(text: str) -> Expr:
    return parse_expr(text, lambda line, column: Span(Source("t.yaml", ""), line, column))


def order(blocks: str, terms: str) -> SumOrder:
    return SumOrder(*(tuple(expr(part) for part in text.split("; ") if part) for text in (blocks, terms)))


BLOCKED = Floats((("conv2d", (order("i // 2; u; v", "i % 2"),)),))


def halves(rng: np.random.Generator, *shape: int) -> Array:
    return (rng.standard_normal(shape) * 8).astype(F16)


def one_by_one(x: Array, w: Array, bias: Array, pads: tuple[int, ...], place: tuple[int, int, int, int]) -> np.float32:
    """An element of the convolution, in scalars of float32: blocks of two channels, then rows and columns, from zero."""
    n, o, p, q = place
    total = F32(0)
    channels, rows, columns = w.shape[1:]
    for first, u, v in itertools.product(range(0, channels, 2), range(rows), range(columns)):
        inner = None
        for i in range(first, min(first + 2, channels)):
            y, z = p + u - pads[0], q + v - pads[1]
            inside = 0 <= y < x.shape[2] and 0 <= z < x.shape[3]
            term = F32(x[n, i, y, z] if inside else 0) * F32(w[o, i, u, v])
            inner = term if inner is None else inner + term
        assert inner is not None
        total = total + inner
    return total + bias[o]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**20), st.integers(1, 5), st.tuples(st.integers(1, 3), st.integers(1, 3)), st.tuples(*[st.integers(0, 1)] * 4))
def test_a_convolution_term_by_term(seed: int, channels: int, kernel: tuple[int, int], pads: tuple[int, ...]) -> None:
    rng = np.random.default_rng(seed)
    x, w, bias = halves(rng, 2, channels, 4, 5), halves(rng, 3, channels, *kernel), rng.standard_normal(3).astype(F32)
    attributes = {"strides": (1, 1), "pads": pads, "dilations": (1, 1), "group": 1}
    found = evaluate_call(KINDS["conv2d"], "relu", attributes, [x, w, bias], BLOCKED)
    assert found.dtype == F16
    for place in np.ndindex(found.shape):
        assert found[place] == max(one_by_one(x, w, bias, pads, place), F32(0)).astype(F16), place


def test_the_order_decides_the_last_bits() -> None:
    rng = np.random.default_rng(1)
    operands = [halves(rng, 1, 64, 14, 14), halves(rng, 32, 64, 3, 3), np.zeros(32, F32)]
    orders = ("i // 32; u; v", "i % 32"), ("u; v; i // 32", "i % 32"), ("", "i; u; v")
    ways = [Floats((("conv2d", (order(blocks, terms),)),)) for blocks, terms in orders]
    one, other, plain = (evaluate_call(KINDS["conv2d"], "", {}, operands, way) for way in ways)
    assert (one != other).any()
    assert (one != plain).any()
    np.testing.assert_allclose(one.astype(F32), plain.astype(F32), rtol=2e-3, atol=0.5)


def test_blocks_and_terms_name_every_place_once() -> None:
    numbers = {"group_channels": 5, "kh": 2, "kw": 3}
    blocks = list(blocks_of(KINDS["conv2d"].meaning.over, numbers, order("i // 2; u; v", "i % 2")))
    assert [[place["i"] for place in block] for block in blocks[:2]] == [[0, 1], [0, 1]]
    assert len(blocks) == 3 * 2 * 3
    assert len({tuple(place.items()) for block in blocks for place in block}) == 30
    assert [block[0]["v"] for block in blocks_of(KINDS["conv2d"].meaning.over, numbers, SumOrder())][:4] == [0, 1, 2, 0]


def test_the_first_order_whose_condition_holds() -> None:
    kind, small = KINDS["conv2d"], replace(order("u", "v; i"), where=expr("kw < 3"))
    floats = Floats((("conv2d", (small, replace(BLOCKED.orders("conv2d")[0], where=expr("kw < 5")))),))
    assert [order_of(kind, {"kw": columns}, floats) for columns in (2, 3, 5)] == [*floats.orders("conv2d"), None]
    assert [ordered(kind, {"kw": columns}, floats) for columns in (2, 3, 5)] == [True, True, False]


def test_indices_that_run_further_meet_zeros_which_an_infinity_makes_nan() -> None:
    """A window of two columns that is computed as three: the third has a weight of zero."""
    wide = Floats((("conv2d", (replace(order("u; v", "i"), over=(("v", (expr("0"), expr("kw + 1"))),)),)),))
    x, w, bias = np.ones((1, 1, 1, 4), F16), np.ones((1, 1, 1, 2), F16), np.zeros(1, F32)
    x[..., 2] = np.inf
    found = evaluate_call(KINDS["conv2d"], "", {}, [x, w, bias], wide)
    np.testing.assert_array_equal(found[0, 0, 0], [np.nan, np.inf, np.inf])
    np.testing.assert_array_equal(evaluate_call(KINDS["conv2d"], "", {}, [x, w, bias], BLOCKED)[0, 0, 0], [2, np.inf, np.inf])


@pytest.mark.parametrize("name", ["add", "subtract", "multiply"])
def test_one_term_is_rounded_once_and_keeps_its_sign(name: str) -> None:
    x, z = (np.array([[[values]]], F16) for values in ([-0.0, 1.0, 65504.0, 3.0], [-0.0, 2.0**-11, 65504.0, -3.0]))
    found = evaluate_call(KINDS[name], "", {}, [x, z], Floats())
    wide = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply}[name](x.astype(F32), z.astype(F32))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(found.view(np.int16), wide.astype(F16).view(np.int16))


def test_a_mean_divides_the_sum_of_its_window() -> None:
    x = np.arange(9, dtype=F16).reshape(1, 1, 3, 3)
    found = evaluate_call(KINDS["average_pool"], "", {"kernel_shape": (3, 3)}, [x], Floats())
    assert found.item() == 4


def test_choices_keep_bits_and_know_zeros_and_nan() -> None:
    x = np.array([-0.0, 0.0, np.nan, -np.inf, 2.0**-24, -1.0], F16).reshape(1, 1, 1, 6)
    pooled = evaluate_call(KINDS["max_pool"], "", {"kernel_shape": (1, 2)}, [x], Floats())
    assert pooled.view(np.uint16).ravel().tolist() == [0x0000, 0x7E00, 0x7E00, 0x0001, 0x0001]
    moved = evaluate_call(KINDS["flatten"], "", {}, [x], Floats())
    np.testing.assert_array_equal(moved.view(np.uint16).ravel(), x.view(np.uint16).ravel())


def test_no_sum_is_a_nan_of_its_own() -> None:
    x = np.array([np.inf, -np.inf], F16).reshape(1, 2, 1, 1)
    found = evaluate_call(KINDS["conv2d"], "", {}, [x, np.ones((1, 2, 1, 1), F16), np.zeros(1, F32)], Floats())
    assert found.view(np.uint16).item() == 0x7E00


def test_bounds_are_bits_and_back() -> None:
    value = np.array([-2, -0.0, 0.5, 7, np.nan], F32)
    for activation, attributes, wanted in (
        ("relu", {}, [0, 0, 0.5, 7, math.nan]),
        ("clip", {"minimum": -1.0, "maximum": 6.0}, [-1, -0.0, 0.5, 6, math.nan]),
        ("leaky", {"alpha": 0.25}, [-0.5, -0.0, 0.5, 7, math.nan]),
        ("", {}, [-2, -0.0, 0.5, 7, math.nan]),
    ):
        bounds = activation_bounds(activation, attributes)
        assert number_bounds(bounds.numbers) == bounds
        np.testing.assert_array_equal(bounds.of(value), np.array(wanted, F32))
    assert not np.signbit(activation_bounds("relu", {}).of(value)[:2]).any()
    assert Bounds().numbers["slope"] == 0


def test_stages_have_no_floating_arithmetic() -> None:
    numbers = numbers_of(KINDS["softmax"], {"x": (1, 2, 3)}, {})
    with pytest.raises(UserError, match="E0919"):
        compute(KINDS["softmax"], numbers, {"x": np.zeros((1, 2, 3), F16)}, Bounds(), Floats())
