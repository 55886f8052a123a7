"""Numbers of 16-bit formats are those of numpy and ml_dtypes, and their bits come back; stages in a floating format against definitions in loops of
single numbers; functions of halves against the tables of the engines."""

import math
from collections.abc import Callable, Sequence
from functools import reduce

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolchain.emulator.numpy_engine.floating import function_table
from toolchain.operations.float_stages import (
    AT_ONCE,
    DTYPES,
    FLOAT_FUNCTIONS,
    GREATEST,
    added_up,
    bits_of_held,
    blocks_of,
    evaluate_halves,
    held_of_bits,
    rounded,
)
from toolchain.operations.floating import computable
from toolchain.operations.kind import OperationKind
from toolchain.operations.library import builtin_kinds, kinds_of, read_kind
from toolchain.operations.reads import Place
from toolchain.spec.arrays import Array
from toolchain.spec.errors import Source, Span, UserError
from toolchain.spec.expr import Expr, parse_expr
from toolchain.spec.load import load_machine
from toolchain.spec.model.quantisation import Format, SumOrder
from toolchain.spec.model.types import BF16, F16, FloatType

F32 = np.float32
ALL = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
"""Every half."""


def expr(text: str) -> Expr:
    return parse_expr(text, lambda line, column: Span(Source("t.yaml", ""), line, column))


def extended(name: str, *stages: str) -> OperationKind:
    return read_kind(Source("own.yaml", f"extends: {name}\nfloats:\n  stages:\n" + "".join(f"    - {stage}\n" for stage in stages)))


def value(text: str, x: Array, **numbers: int) -> Array:
    """An expression of x, as the only stage of a function of single elements."""
    kind = extended("sigmoid", f'{{name: y, axes: [n, c, h, w], value: "{text}"}}')
    return evaluate_halves(kind, {"batch": 1, "channels": len(x), "height": 1, "width": 1, **numbers}, {"x": x.reshape(1, -1, 1, 1)}).ravel()


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "erf"])
@pytest.mark.parametrize("kind", [F16, BF16], ids=str)
def test_functions_of_halves_are_those_of_the_engines(name: str, kind: FloatType) -> None:
    """Two ways to the correctly rounded value, on every half of both formats."""
    form = "f16" if kind == F16 else "bf16"
    with np.errstate(all="ignore"):
        found = rounded(FLOAT_FUNCTIONS[form][name](held_of_bits(ALL.view(np.int16), form).astype(F32)), form)
    np.testing.assert_array_equal(bits_of_held(found).view(np.uint16), np.asarray(function_table(name, kind)).astype(np.uint16).ravel())


TRUE: dict[str, Callable[[float], float]] = {
    "half(x[n, c, h, w] * 3)": lambda x: float(np.float16(F32(x) * F32(3))),
    "ratio(x[n, c, h, w], 3)": lambda x: float(F32(x) / F32(3)),
    "x[n, c, h, w] * from_bits(0x3f000000)": lambda x: x / 2,
    "-x[n, c, h, w] if x[n, c, h, w] < 1 and x[n, c, h, w] >= -2 else abs(x[n, c, h, w])": lambda x: -x if -2 <= x < 1 else abs(x),
    "min(max(x[n, c, h, w], -1), 2) - height": lambda x: float(F32(min(max(x, -1.0), 2.0)) - F32(1)),
    "sqrt(x[n, c, h, w] * x[n, c, h, w])": abs,
}


@pytest.mark.parametrize("text", TRUE)
@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(-100, 100, width=16), min_size=1, max_size=6))
def test_expressions_one_number_at_a_time(text: str, given_: list[float]) -> None:
    found = value(text, np.array(given_, np.float16))
    wanted = np.array([TRUE[text](each) for each in given_], np.float16)
    np.testing.assert_array_equal(found, wanted)


def test_choices_know_zeros_and_nan() -> None:
    x = np.array([-0.0, 0.0, np.nan, -np.inf], np.float16)
    assert value("max(x[n, c, h, w], -0 * height)", x).view(np.uint16).tolist() == [0x8000, 0, 0x7E00, 0x8000]
    assert value("min(x[n, c, h, w], height - height)", x).view(np.uint16).tolist() == [0x8000, 0, 0x7E00, 0xFC00]


@pytest.mark.parametrize("elements", [1, AT_ONCE // 7, 2 * AT_ONCE])
def test_a_sum_is_added_up_as_it_says(elements: int) -> None:
    """However many terms are computed at once."""
    rng = np.random.default_rng(2)
    x = (rng.standard_normal(96) * 10.0 ** rng.integers(-3, 4, 96)).astype(F32)
    order = SumOrder((expr("c // 32"),), (expr("31 - c % 32"),))
    asked = list[int]()

    def terms(places: Sequence[Place]) -> Array:
        asked.append(len(places))
        return x[[place["c"] for place in places]]

    loops = {"i": range(elements)}
    found = added_up(terms, list(blocks_of({"c": "channels"}, {"channels": 96}, order)), loops)
    assert asked[0] == min(96, max(1, AT_ONCE // elements))
    assert sum(asked) == 96
    total = F32(0)
    for block in range(0, 96, 32):
        inner = x[block + 31]
        for place in reversed(range(block, block + 31)):
            inner = F32(inner + x[place])
        total = F32(total + inner)
    assert found.item() == total
    assert found.item() != added_up(terms, list(blocks_of({"c": "channels"}, {"channels": 96}, SumOrder())), loops).item()
    assert [place["c"] for block in blocks_of({"c": "channels"}, {"channels": 3}, SumOrder()) for place in block] == [0, 1, 2]


def one_norm(x: Array, scale: Array, offset: Array, epsilon: np.float32, centred: bool = True) -> Array:
    """A row in scalars of float32, 32 channels in order and then to the sum."""

    def total(terms: list[np.float32]) -> np.float32:
        whole = F32(0)
        for block in range(0, len(terms), 32):
            inner = terms[block]
            for term in terms[block + 1 : block + 32]:
                inner = F32(inner + term)
            whole = F32(whole + inner)
        return whole

    wide = [F32(each) for each in x]
    mean = F32(total(wide) / F32(len(x))) if centred else F32(0)
    apart = [F32(each - mean) for each in wide]
    spread = np.sqrt(F32(F32(total([F32(each * each) for each in apart]) / F32(len(x))) + epsilon))
    return np.array([np.float16(F32(F32(F32(a / spread) * F32(s)) + b)) for a, s, b in zip(apart, scale, offset, strict=True)])


def test_norms_of_stcp920_row_by_row() -> None:
    rng, kind = np.random.default_rng(3), kinds_of(load_machine("stcp920:f16"))["layer_norm"]
    x, scale, offset = (rng.standard_normal((1, 3, 64)) * 4).astype(np.float16), rng.random(64).astype(np.float16), rng.random(64).astype(F32)
    epsilon = F32(1e-12)
    numbers = {"batch": 1, "rows": 3, "channels": 64, "epsilon_bits": int(epsilon.view(np.int32))}
    found = evaluate_halves(kind, numbers, {"x": x, "weight": scale, "bias": offset})
    for row in range(3):
        np.testing.assert_array_equal(found[0, row], one_norm(x[0, row], scale, offset, epsilon))
    roots = evaluate_halves(kinds_of(load_machine("stcp920:f16"))["rms_norm"], numbers, {"x": x, "weight": scale})
    for row in range(3):
        np.testing.assert_array_equal(roots[0, row], one_norm(x[0, row], scale, np.zeros(64, F32), epsilon, centred=False))


@pytest.mark.parametrize(("masks", "share"), [(1, 1), (3, 1), (3, 2)])
def test_attention_of_stcp920_is_near_the_true_one(masks: int, share: int) -> None:
    rng, kind = np.random.default_rng(4), kinds_of(load_machine("stcp920:f16"))["spaced_masked_attention_probabilities"]
    x, z = (rng.standard_normal((1, rows, channels)).astype(np.float16) for rows, channels in ((3, 128), (27, 128 // share)))
    mask = np.where(rng.random((1, masks, 27)) < 0.3, -65504, 0).astype(np.float16)
    numbers = {"batch": 1, "rows": 3, "masks": masks, "keys": 27, "channels": 128, "key_channels": 128 // share, "heads": 2, "spare": 5}
    numbers |= {"inner": 64, "share": share, "room": 32, "cells": 64}
    found = evaluate_halves(kind, numbers, {"x": x, "z": z, "mask": mask}).reshape(3, 2, 32)
    assert not found[..., 27:].any()
    found = found[..., :27]
    queries, keys = (each[0].astype(np.float64).reshape(len(each[0]), -1, 64) for each in (x, z))
    keys = keys.repeat(share, 1)
    scores = np.einsum("mgi,ogi->mgo", queries, keys) / math.sqrt(64) + mask[0, :, None].astype(np.float64)
    power = np.exp(scores - scores.max(-1, keepdims=True))
    np.testing.assert_allclose(found, power / power.sum(-1, keepdims=True), rtol=0.02, atol=2e-4)
    assert not found[np.broadcast_to(mask[0, :, None] < 0, found.shape)].any()


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("half", [16, 32])
def test_rotary_positions_of_stcp920_row_by_row(half: int, interleaved: int) -> None:
    """Two heads of 64 channels, all or half of them turned: two products and a sum in float32, rounded once."""
    rng, kind = np.random.default_rng(6), kinds_of(load_machine("stcp920:f16"))["rotary"]
    x, cos, sin = (rng.standard_normal((1, 3, channels)).astype(np.float16) for channels in (128, half, half))
    numbers = {"batch": 1, "tables": 1, "rows": 3, "channels": 128, "heads": 2, "half": half, "interleaved": interleaved}
    numbers |= {"inner": 64, "turned": 2 * half, "span": 1 if interleaved else half}
    found = evaluate_halves(kind, numbers, {"x": x, "cos": cos, "sin": sin}).reshape(3, 2, 64)
    given, tables = x[0].astype(F32).reshape(3, 2, 64), [table[0].astype(F32)[:, None] for table in (cos, sin)]
    first, second = (slice(0, 2 * half, 2), slice(1, 2 * half, 2)) if interleaved else (slice(half), slice(half, 2 * half))
    a, b = given[..., first], given[..., second]
    np.testing.assert_array_equal(found[..., first], (a * tables[0] - b * tables[1]).astype(np.float16))
    np.testing.assert_array_equal(found[..., second], (b * tables[0] + a * tables[1]).astype(np.float16))
    np.testing.assert_array_equal(found[..., 2 * half :], given[..., 2 * half :])


def test_softmax_of_stcp920_row_by_row() -> None:
    """Exponentials are halves, added up 32 at a time."""
    rng, kind = np.random.default_rng(5), kinds_of(load_machine("stcp920:f16"))["softmax"]
    x = (rng.standard_normal((1, 4, 45)) * 4).astype(np.float16)
    found = evaluate_halves(kind, {"batch": 1, "rows": 4, "channels": 45}, {"x": x})
    for row, wide in zip(found[0], x[0].astype(F32), strict=True):
        power = np.exp((wide - wide.max()).astype(np.float16).astype(np.float64)).astype(np.float16).astype(F32)
        total = F32(0)
        for block in (power[:32], power[32:]):
            total = F32(total + reduce(np.add, block))
        np.testing.assert_array_equal(row, (power / total).astype(np.float16))


def test_a_kind_with_stages_is_computable_and_keeps_its_meaning() -> None:
    plain, own = builtin_kinds()["gelu"], kinds_of(load_machine("stcp920"))["gelu"]
    assert not computable(plain)
    assert computable(own)
    assert (own.form, own.meaning) == (plain.form, plain.meaning)


WRONG = [
    ('{name: y, axes: [n, c, h, w], value: "x[n, c, h, w] << 1"}', "E0122 this cannot be computed in floating point"),
    ('{name: y, axes: [n, c, h, w], value: "from_bits(x[n, c, h, w])"}', "E0122 the bits of a float32 are no tensor's"),
]


@pytest.mark.parametrize(("stage", "message"), WRONG)
def test_wrong_stages_when_they_run(stage: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        evaluate_halves(extended("sigmoid", stage), {"batch": 1, "channels": 1, "height": 1, "width": 1}, {"x": np.ones((1, 1, 1, 1), np.float16)})


READ = [
    ('{name: y, axes: [n, c, h, w], value: "half(x[n, c, h, w], 2)"}', "E0123 half takes 1 argument, not 2"),
    ('{name: y, axes: [n, c, h, w], value: "nearest(x[n, c, h, w])"}', "E0107 unknown function 'nearest'"),
    ('{name: z, axes: [n, c, h, w], value: "x[n, c, h, w]"}', "E1301 the last stage makes 'z', not the result 'y'"),
    ('{name: y, axes: [n, c, h], mean: "x[n, c, h, w]", over: {w: width}}', "E1301 stage 'y' has a mean"),
    ('{name: y, axes: [n, c, h], sum: "x[n, c, h, w]", over: {w: width}, terms: [q]}', "E0107 unknown name 'q'"),
]


@pytest.mark.parametrize(("stage", "message"), READ)
def test_wrong_stages_when_they_are_read(stage: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        extended("sigmoid", stage)


FORMS: tuple[Format, ...] = ("f16", "bf16")
OWN = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
BITS = np.arange(1 << 16, dtype=np.uint16)


@pytest.mark.parametrize("form", FORMS)
def test_every_number_is_itself_and_its_bits(form: Format) -> None:
    held, own = held_of_bits(BITS.view(np.int16), form), BITS.view(OWN[form])
    assert held.dtype == DTYPES[form]
    np.testing.assert_array_equal(held.astype(np.float32), own.astype(np.float32))
    assert np.array_equal(bits_of_held(held).view(np.uint16), BITS)
    numbers = ~np.isnan(held)
    assert np.array_equal(bits_of_held(rounded(held, form))[numbers].view(np.uint16), BITS[numbers])
    assert {*bits_of_held(rounded(held, form))[~numbers].tolist()} == {0x7E00 if form == "f16" else 0x7FC0}
    assert np.nanmax(held[np.isfinite(held)]) == GREATEST[form]


@settings(max_examples=300, deadline=None)
@given(st.integers(0, (1 << 32) - 1), st.sampled_from(FORMS))
def test_singles_round_as_the_libraries_do(bits: int, form: Format) -> None:
    x = np.array([bits], np.uint32).view(np.float32)
    with np.errstate(over="ignore"):
        found, wanted = rounded(x, form), x.astype(OWN[form]).astype(np.float32)
    assert np.array_equal(found.astype(np.float32), wanted, equal_nan=True)
    assert np.signbit(found[0]) == np.signbit(wanted[0]) or np.isnan(wanted[0])


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 0x7F7F), st.sampled_from([-1, 0, 1]), st.sampled_from([1.0, -1.0]))
def test_doubles_near_the_middle_go_to_the_nearer_number(bits: int, side: int, sign: float) -> None:
    """A double next to the middle between two numbers, which float32 takes for the middle itself."""
    low, high = (float(held_of_bits(np.array([each]), "bf16")[0]) for each in (bits, bits + 1))
    middle = (low + high) / 2
    x = middle if side == 0 or not np.isfinite(high) else np.nextafter(middle, high if side > 0 else low)
    even = low if bits % 2 == 0 else high
    wanted = even if side == 0 else high if side > 0 else low
    if np.isfinite(high):
        assert rounded(np.array([sign * x]), "bf16")[0] == sign * wanted
