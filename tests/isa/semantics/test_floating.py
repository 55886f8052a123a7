"""Floating values in the semantics language: their types, their text, their bounds, and mistakes with them."""

from collections.abc import Callable

import pytest

from tests.float_machine import float_machine, float_text
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.isa.semantics.ranges import analyse
from toolchain.isa.semantics.text import unparse_semantics
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_text
from toolchain.spec.model.types import F32

TEXT = float_text()
BODY = "      if what == 0:\n          x[d][o] = x[a][o] + x[b][o]\n"
MISTAKES = {
    "integer into a float": "x[d][o] = s[a][o]",
    "float into an integer": "s[d][o] = x[a][o]",
    "integer operand": "x[d][o] = x[a][o] + s[b][o]",
    "constant without a float": "x[d][o] = x[a][o] + 16777217",
    "remainder": "x[d][o] = x[a][o] % x[b][o]",
    "not of a float": "x[d][o] = ~x[a][o]",
    "min without a word on NaN": "x[d][o] = min(x[a][o], x[b][o])",
    "sum without an order": "t[r]: f32 = sum(x[a][o])",
    "product without an order": "t[r]: f32 = dot(x[a][o], x[b][o])",
    "shift of a float": "s[d][o] = x[a][o] >> 2",
    "saturated, not rounded": "q[d][o] = saturate(x[a][o], i8)",
    "formats that meet": "x[d][o] = x[a][o] * h[b][o]",
    "another format's place": "x[d][o] = h[b][o]",
    "wrapped into a float": "x[d][o] = wrap(s[a][o], f32)",
    "tree of three": "x[d][o] = sum_tree(m[a % 4][r, o], 3)",
    "tree that does not divide": "x[d][o] = sum_tree(m[a % 4][r, o], 8)",
    "exact sum of integers": "s[d][o] = sum_exact(s[a][c])",
    "reduction over nothing": "x[d][o] = sum_in_order(x[a][o])",
    "function of a wide format": "x[d][o] = exp(x[a][o])",
    "two operands of three": "x[d][o] = fma(x[a][o], x[b][o])",
    "wrapping float": "t[o]: wrap(f32) = x[a][o]",
    "branches of two types": "x[d][o] = x[a][o] if n > 1 else s[a][o]",
    "float as a condition": "s[d][o] = 1 if x[a][o] else 2",
    "float and": "s[d][o] = x[a][o] and 1",
    "bits of an integer": "s[d][o] = wrap(to_bits(s[a][o]), i32)",
    "bits of a float as a float": "x[d][o] = from_bits(x[a][o], f32)",
    "bits as an integer": "x[d][o] = from_bits(s[a][o], i32)",
    "nan of an integer": "s[d][o] = is_nan(s[a][o])",
    "rounding an integer": "q[d][o] = round_truncate(s[a][o], i8)",
    "rounding to a float": "x[d][o] = round_half_even(x[a][o], f32)",
    "floating address": "x[round_floor(from_bits(scale, f32), u8)][o] = x[a][o]",
    "floating branch": "if from_bits(scale, f32) == 1:\n          x[d][o] = x[a][o]",
    "floating local name of a control memory": "k = ctl[0]",
    "floating result of a function": "k = first(ctl[0])",
    "floating local name": "k = f32(n)",
}


def with_body(text: str) -> str:
    return TEXT.replace(BODY, f"      {text}\n      if what == 0:\n          pass\n")


def message(text: str) -> str:
    with pytest.raises(UserError) as caught:
        machine_semantics(load_text(with_body(text), "floats.yaml"))
    return str(caught.value)


def test_mistakes(golden: Callable[[str, str], None]) -> None:
    golden("isa/floating_errors.txt", "\n\n".join(f"{name}\n{message(text)}" for name, text in MISTAKES.items()) + "\n")


@pytest.mark.parametrize(("name", "following"), [("ALU", "SCALE"), ("SCALE", "SUM"), ("SUM", "TABLE")])
def test_the_text_of_semantics_reads_back_the_same(name: str, following: str) -> None:
    text = unparse_semantics(machine_semantics(float_machine())[name])
    head, _, rest = TEXT.partition(f"  {name}:\n")
    before, _, after = rest.partition("    semantics: |\n")
    _, _, after = after.partition(f"\n  {following}:\n")
    body = "".join(f"      {line}\n" for line in text.splitlines())
    again = f"{head}  {name}:\n{before}    semantics: |\n{body}  {following}:\n{after}"
    assert unparse_semantics(machine_semantics(load_text(again, "again.yaml"))[name]) == text


def test_bounds_are_those_of_the_bits() -> None:
    machine = float_machine()
    semantics = machine_semantics(machine)["SCALE"]
    assert analyse(machine, semantics).temps["t"] == (F32.low, F32.high)
    assert semantics.temps["t"] == ir.TempType(F32, "error", ("o",))


@pytest.mark.parametrize("text", ["  vec_t: {low: f32, bits: 64}", "  vec_t: f33[8]", "  vec_t: f32[0]"])
def test_types_that_are_none(text: str) -> None:
    with pytest.raises(UserError) as caught:
        load_text(TEXT.replace("  vec_t: f32[8]", text), "floats.yaml")
    assert caught.value.diagnostics[0].code == "E0110"


def spelled(text: str) -> list[str]:
    return [unparse_semantics(each) for each in machine_semantics(load_text(with_body(text), "floats.yaml")).values()]


@pytest.mark.parametrize(("condition", "kept"), [("2 > 1", "bf16"), ("1 > 2", "f16")])
def test_a_constant_condition_chooses_the_format(condition: str, kept: str) -> None:
    """As a parameter does; a condition that an instruction decides leaves one place with two formats."""
    text = f"x[d][o] = f32(bf16(x[a][o]) if {condition} else f16(x[a][o]))"
    assert spelled(text) == spelled(f"x[d][o] = f32({kept}(x[a][o]))")
    assert "E0226 bf16 and f16 meet here" in message(text.replace(condition, "n > 1"))
