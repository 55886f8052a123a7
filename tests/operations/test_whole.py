"""Stages: index arithmetic, reductions, and parts that make the same whole. Stages in floating point against numpy's own. A machine's own
arithmetic: its functions against Python's and numpy's, its constants, and what it approximates."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.operations import whole
from toolchain.operations.kind import Arithmetic, OperationKind
from toolchain.operations.library import Kinds, builtin_kinds, kinds_of
from toolchain.operations.numbers import bits_of
from toolchain.operations.whole import (
    constants_of,
    evaluate_arithmetic,
    evaluate_reals,
    evaluate_stages,
    evaluate_table,
    evaluate_whole,
    most_factor,
    step_of,
    unmet,
)
from toolchain.spec.errors import UserError
from toolchain.spec.expr import Expr, parse_expr
from toolchain.spec.load import load_machine
from toolchain.verify.random_operation import drawn_constants

KINDS = builtin_kinds()
NUMBERS = {"batch": 2, "rows": 3, "keys": 4, "channels": 6, "heads": 2, "inner": 3, "cells": 8}
X = np.random.default_rng(0).normal(size=(2, 3, 5))

GEMMINI_KINDS = kinds_of(load_machine("gemmini"))
MANY_KINDS = kinds_of(load_machine("stcp920"))
SCALES = {"x": 0.04, "z": 0.04}


def shares(x: np.typing.NDArray[np.float64], z: np.typing.NDArray[np.float64]) -> np.typing.NDArray[np.float64]:
    """By numpy's own product of heads, [batch, rows, heads * keys]."""
    queries, keys = (each.reshape(2, -1, 2, 3).transpose(0, 2, 1, 3) for each in (x, z))
    scores = queries @ keys.transpose(0, 1, 3, 2) / np.sqrt(3)
    power = np.exp(scores - scores.max(-1, keepdims=True))
    return (power / power.sum(-1, keepdims=True)).transpose(0, 2, 1, 3).reshape(2, 3, 8)


@pytest.mark.parametrize("most", [1, 7, 1 << 22])
def test_parts_make_the_same_whole(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "MOST", most)
    rng = np.random.default_rng(most)
    x, z = rng.normal(size=(2, 3, 6)), rng.normal(size=(2, 4, 6))
    np.testing.assert_allclose(evaluate_stages(KINDS["attention_probabilities"], NUMBERS, {"x": x, "z": z}), shares(x, z))


def test_a_read_past_an_edge_is_told() -> None:
    with pytest.raises(UserError, match="E1301 'z' is read outside its extents"):
        evaluate_stages(KINDS["attention_probabilities"], {**NUMBERS, "keys": 5, "cells": 10}, {"x": np.zeros((2, 3, 6)), "z": np.zeros((2, 4, 6))})


def test_softmax_and_layer_norm() -> None:
    numbers = {"batch": 2, "rows": 3, "channels": 5, "epsilon_bits": bits_of(1e-5)}
    power = np.exp(X - X.max(-1, keepdims=True))
    np.testing.assert_allclose(evaluate_stages(KINDS["softmax"], numbers, {"x": X}), power / power.sum(-1, keepdims=True))
    scale, offset = np.arange(5.0), np.arange(5.0) - 2
    wanted = (X - X.mean(-1, keepdims=True)) / np.sqrt(X.var(-1, keepdims=True) + 1e-5) * scale + offset
    np.testing.assert_allclose(evaluate_stages(KINDS["layer_norm"], numbers, {"x": X, "weight": scale, "bias": offset}), wanted)
    wanted = X / np.sqrt((X * X).mean(-1, keepdims=True) + 1e-5) * scale
    np.testing.assert_allclose(evaluate_stages(KINDS["rms_norm"], numbers, {"x": X, "weight": scale}), wanted)


def test_tables() -> None:
    np.testing.assert_allclose(evaluate_table(KINDS["sigmoid"], X), 1 / (1 + np.exp(-X)))
    np.testing.assert_allclose(evaluate_table(KINDS["hard_swish"], X), X * np.clip(X + 3, 0, 6) / 6)


def test_remainders_of_places() -> None:
    names = {"x": np.arange(-4.0, 5.0), "n": np.full(9, 3.0)}
    np.testing.assert_array_equal(evaluate_reals(parsed("x % n if x % n < 2 else 7"), names), [7, 0, 1, 7, 0, 1, 7, 0, 1])


def test_what_floating_point_does_not_have() -> None:
    with pytest.raises(UserError, match="E0122 this cannot be computed in floating point"):
        evaluate_reals(parse_expr("x << 2", lambda _line, _column: None), {"x": X})  # type: ignore[arg-type,return-value]


def parsed(text: str) -> Expr:
    return parse_expr(text, lambda _line, _column: None)  # type: ignore[arg-type,return-value]


def value(text: str, **names: int) -> int:
    return int(evaluate_whole(parsed(text), {name: np.array([number], np.int64) for name, number in names.items()})[0])


def own(kind: OperationKind) -> Arithmetic:
    assert kind.arithmetic is not None
    return kind.arithmetic


@given(st.integers(-(1 << 61), 1 << 61))
def test_wrap_keeps_the_low_32_bits(x: int) -> None:
    assert value("wrap(x)", x=x) == int(np.array(x, np.int64).astype(np.int32))


@given(st.integers(-5, 1 << 53))
def test_root_is_the_floor(x: int) -> None:
    assert value("root(x)", x=x) == math.isqrt(max(x, 0))


@given(st.integers(-(1 << 30), 1 << 30), st.integers(1, 1 << 20))
def test_singles_round_once_and_ties_go_to_the_even(x: int, y: int) -> None:
    assert value("nearest(ratio(single(x), single(y)))", x=x, y=y) == int(np.rint(np.float32(x) / np.float32(y)))
    assert value("truncate(single(x) * ratio(single(1), single(y)))", x=x, y=y) == int(np.float32(x) * (np.float32(1) / np.float32(y)))


@given(st.integers(0, 1 << 60))
def test_a_root_of_a_single_is_rounded_once(x: int) -> None:
    assert value("truncate(sqrt(single(x)))", x=x) == int(np.sqrt(np.float32(x)))


def test_ties() -> None:
    assert [value("nearest(ratio(single(x), single(2)))", x=x) for x in (-3, -1, 1, 3, 5)] == [-2, 0, 0, 2, 2]


def test_whole_and_single_numbers_do_not_mix() -> None:
    with pytest.raises(UserError, match="E0122 this is no product, ratio or root of float32 numbers"):
        value("nearest(x + 1)", x=3)


def test_a_constant_that_is_no_number() -> None:
    arithmetic = Arithmetic({"c": parsed("ratio(1, scale_x - scale_x)")}, parsed("1"), (), ())
    with pytest.raises(UserError, match="E0122 the constant 'c' is inf"):
        constants_of(arithmetic, {"x": 0.5}, {})


def test_a_constant_may_name_those_before_it() -> None:
    """Rounded, as they are then."""
    arithmetic = Arithmetic({"c": parsed("ratio(1, scale_x)"), "d": parsed("3 * c + k")}, parsed("ratio(d, c)"), (), ())
    found = constants_of(arithmetic, {"x": 0.3}, {"k": 2})
    assert found == {"c": 3, "d": 11}
    assert step_of(arithmetic, {"x": 0.3}, {"k": 2, **found}) == 11 / 3


@pytest.mark.parametrize(
    ("kinds", "channels", "most"), [(GEMMINI_KINDS, 384, 18), (GEMMINI_KINDS, 2064, 7), (GEMMINI_KINDS, 64, 32), (MANY_KINDS, 384, 127)]
)
def test_the_largest_factor_of_a_channel(kinds: Kinds, channels: int, most: int) -> None:
    """On gemmini squares of 384 channels times 18 add up to less than 2**31, whatever the channels are."""
    assert most_factor(kinds["scaled_layer_norm"], {"channels": channels}) == most
    assert kinds is MANY_KINDS or most == 32 or channels * (127.5 * most) ** 2 < 1 << 31 <= channels * (127.5 * (most + 1.5)) ** 2


def test_a_largest_factor_that_is_no_number() -> None:
    kind = replace(KINDS["scaled_layer_norm"], arithmetic=Arithmetic({}, parsed("1"), (), (), parsed("ratio(1, channels - 4)")))
    with pytest.raises(UserError, match="E0122 the largest factor is inf"):
        most_factor(kind, {"channels": 4})
    assert most_factor(kind, {"channels": 2}) == 1


@pytest.mark.parametrize("size", [20, 60, 120])
@pytest.mark.parametrize("channels", [64, 384, 768])
@pytest.mark.parametrize("name", ["layer_norm", "scaled_layer_norm"])
def test_gemmini_norms_are_near_norms(name: str, channels: int, size: int) -> None:
    """Off by the rounding of normal numbers, in shares of a deviation. Factors are such that a channel is far larger than the others: the deviation
    has few steps, and the halved number of that channel moves the mean."""
    kind, rng = GEMMINI_KINDS[name], np.random.default_rng(1)
    numbers = {"batch": 1, "rows": 7, "channels": channels, "epsilon_bits": bits_of(1e-5)}
    operands = {"x": np.rint(rng.normal(size=(1, 7, channels)) * size / 3).clip(-128, 127).astype(np.int64)}
    operands |= {"weight": rng.integers(-128, 128, channels), "bias": np.zeros(channels, np.int64)}
    if name == "scaled_layer_norm":
        most = most_factor(kind, numbers)
        operands["factor"] = np.where(np.arange(channels) == 3, most, rng.integers(1, max(most // 6, 2), channels))
    constants = constants_of(own(kind), {"x": 0.1}, numbers)
    assert not unmet(own(kind), {**numbers, **constants})
    step = step_of(own(kind), {"x": 0.1}, {**numbers, **constants})
    found = evaluate_arithmetic(kind, {**numbers, **constants}, operands) * step
    wanted = evaluate_stages(kind, numbers, {name: array.astype(np.float64) * (0.1 if name == "x" else 1) for name, array in operands.items()})
    assert step <= 0.22
    assert np.sqrt(((found - wanted) ** 2).mean()) < (step / 2 + (0.08 if name == "scaled_layer_norm" else 0.02)) * np.sqrt((wanted**2).mean())


def test_gelu_is_near_gelu() -> None:
    kind, x = GEMMINI_KINDS["gelu"], np.arange(-128, 128).reshape(1, 1, 16, 16)
    constants = constants_of(own(kind), SCALES, {})
    found = evaluate_arithmetic(kind, {"batch": 1, "channels": 1, "height": 16, "width": 16, **constants}, {"x": x}) * step_of(own(kind), SCALES, {})
    assert np.abs(found - evaluate_table(kind, x * SCALES["x"])).max() < 0.03  # I-BERT, table 1: 0.018 of the polynomial itself


def test_shares_are_near_a_softmax_and_sum_to_one() -> None:
    kind, rng = GEMMINI_KINDS["attention_probabilities"], np.random.default_rng(0)
    numbers = {"batch": 1, "rows": 5, "keys": 16, "channels": 64, "heads": 2, "inner": 32, "cells": 32}
    operands = {"x": rng.integers(-60, 60, (1, 5, 64)), "z": rng.integers(-60, 60, (1, 16, 64))}
    constants = constants_of(own(kind), SCALES, numbers)
    assert not unmet(own(kind), {**numbers, **constants})
    found = evaluate_arithmetic(kind, {**numbers, **constants}, operands) * step_of(own(kind), SCALES, numbers)
    wanted = evaluate_stages(kind, numbers, {name: array * SCALES[name] for name, array in operands.items()})
    assert np.abs(found - wanted).max() < 0.02
    assert np.abs(found.reshape(5, 2, 16).sum(-1) - 1).max() < 0.04


@pytest.mark.parametrize("scale", [0.002, 0.02, 0.2])
@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_norms_in_whole_numbers_are_near_norms(name: str, scale: float) -> None:
    kind, rng = MANY_KINDS[name], np.random.default_rng(1)
    numbers = {"batch": 1, "rows": 7, "channels": 96, "epsilon_bits": bits_of(1e-5)}
    operands = {"x": rng.integers(-90, 128, (1, 7, 96)), "weight": rng.integers(-128, 128, 96), "bias": np.zeros(96, np.int64)}
    constants = constants_of(own(kind), {"x": scale}, numbers)
    assert not unmet(own(kind), {**numbers, **constants})
    found = evaluate_arithmetic(kind, {**numbers, **constants}, operands) * step_of(own(kind), {"x": scale}, numbers)
    wanted = evaluate_stages(kind, numbers, {name: array.astype(np.float64) * (scale if name == "x" else 1) for name, array in operands.items()})
    assert np.abs(found - wanted).max() < 128 * 0.51 / 1024 + 1e-2


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("scale", [0.004, 0.03, 0.3])
def test_shares_of_powers_of_two_are_near_a_softmax(masked: bool, scale: float) -> None:
    """Of two heads with 37 keys and zeros up to 64 behind them. I-BERT, section 3.5: its polynomial is off by 0.0019 of a power."""
    kind, rng = MANY_KINDS["spaced_masked_attention_probabilities" if masked else "spaced_attention_probabilities"], np.random.default_rng(0)
    numbers = {"batch": 1, "rows": 5, "keys": 37, "channels": 64, "key_channels": 64, "heads": 2, "spare": 27}
    numbers |= {"inner": 32, "share": 1, "room": 64, "cells": 128, "masks": 1}
    mask = np.where(np.arange(37) < 30, 0, -128)[None, None]
    operands = {"x": rng.integers(-90, 90, (1, 5, 64)), "z": rng.integers(-90, 90, (1, 37, 64)), "mask": mask}
    scales = {"x": scale, "z": scale, "mask": 80.0}
    constants = constants_of(own(kind), scales, numbers)
    assert not unmet(own(kind), {**numbers, **constants})
    found = evaluate_arithmetic(kind, {**numbers, **constants}, operands) * step_of(own(kind), scales, numbers)
    wanted = evaluate_stages(kind, numbers, {name: array.astype(np.float64) * scales[name] for name, array in operands.items()})
    assert np.abs(found - wanted).max() < 0.003
    assert not found.reshape(5, 2, 64)[..., 30 if masked else 37 :].any()


def test_scales_that_are_too_fine_are_told() -> None:
    kind, numbers = GEMMINI_KINDS["attention_probabilities"], {"keys": 128, "inner": 64}
    fine = constants_of(own(kind), {"x": 0.004, "z": 0.004}, numbers)
    assert unmet(own(kind), {**numbers, **fine}).startswith("the scores are so fine")
    assert drawn_constants(kind, numbers, np.random.default_rng(0)) is not None
