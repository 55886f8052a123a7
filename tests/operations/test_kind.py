"""What follows from a description: the form, numbers, in-place operands, padding."""

import pytest

from toolchain.operations.library import builtin_kinds, read_kind
from toolchain.spec.errors import Source

KINDS = builtin_kinds()
FORMS = {
    "move": {"concat", "copy", "depth_to_space", "flatten", "pad", "pixel_shuffle", "shuffle", "slice", "space_to_depth", "transpose", "upsample"},
    "select": {"append_rows", "max_pool", "maximum", "minimum", "reduce_max"},
    "average": {"average_pool", "reduce_mean"},
    "aligned": {"add", "subtract"},
    "weighted": {"conv2d", "conv_transpose", "dense", "depthwise", "linear", "prelu"},
    "computed": {"attention_values", "matmul", "matmul_heads", "multiply", "multiply_channels", "spaced_attention_values"},
    "table": {"gelu", "hard_swish", "mish", "sigmoid", "silu", "tanh"},
    "real": {
        "attention_probabilities", "layer_norm", "masked_attention_probabilities", "place_row", "rms_norm", "rotary",
        "scaled_layer_norm", "scaled_rms_norm", "softmax", "spaced_attention_probabilities", "spaced_masked_attention_probabilities",
    },
}  # fmt: skip


def test_the_form_is_read_off_the_meaning() -> None:
    assert {form: {name for name, kind in KINDS.items() if kind.form == form} for form in FORMS} == FORMS


@pytest.mark.parametrize("name", KINDS)
def test_no_name_stands_for_two_things(name: str) -> None:
    kind = KINDS[name]
    assert len(set(kind.numbers)) == len(kind.numbers)
    assert not set(kind.numbers) & {*kind.arrays, *kind.operand}
    assert set(kind.result.extents) <= set(kind.numbers)


def test_numbers_of_requantisation_follow_the_form() -> None:
    assert {"shift", "low", "bias_least"} <= set(KINDS["conv2d"].numbers)
    assert KINDS["subtract"].multipliers == ("multiply_x", "multiply_z")
    assert KINDS["average_pool"].multipliers == ("multiply",)
    assert "shift" not in KINDS["max_pool"].numbers
    assert "unit" in KINDS["prelu"].numbers
    assert KINDS["sigmoid"].arrays == ("table",)


def test_the_result_may_stand_over_what_is_read_at_the_same_place_alone() -> None:
    assert {name: kind.in_place for name, kind in KINDS.items() if kind.in_place} == {
        **dict.fromkeys(("add", "subtract", "multiply", "maximum", "minimum"), ("x", "z")),
        **dict.fromkeys((*sorted(FORMS["table"]), "prelu", "multiply_channels", "copy"), ("x",)),
    }


def test_padding_that_reaches_past_the_edges() -> None:
    assert {name for name, kind in KINDS.items() if kind.pads} == {"conv2d", "depthwise", "average_pool", "max_pool"}


def test_products_cost_multiply_accumulates_and_means_do_not() -> None:
    assert {name for name, kind in KINDS.items() if kind.products} == {
        "attention_values", "conv2d", "conv_transpose", "dense", "depthwise", "linear", "matmul", "matmul_heads", "spaced_attention_values",
    }  # fmt: skip


def test_one_of_several_elements_by_its_place_is_selected() -> None:
    """A choice by place moves stored integers, so all operands share a scale; one of another number, or by the data, does not."""
    tensors = "tensors: {x: {axes: {n: batch}}, z: {axes: {n: batch}}, y: {axes: {n: batch}, role: result}}"
    meanings = {
        "x[n] if n < batch // 2 else z[n]": True,
        "x[n] if n < 1 else max(x[n], z[n])": True,
        "x[n] if z[n] > 0 else 0": False,
        "x[n] if x[n] >= 0 else x[n]": False,
    }
    for meaning, copies in meanings.items():
        assert read_kind(Source("own.yaml", f'operation: own\n{tensors}\nmeaning: {{value: "{meaning}"}}\n')).copies == copies, meaning
