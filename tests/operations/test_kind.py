"""What follows from a description: the form, numbers, in-place operands, padding."""

import pytest

from toolchain.operations.library import builtin_kinds

KINDS = builtin_kinds()
FORMS = {
    "move": {"concat", "depth_to_space", "flatten", "pad", "pixel_shuffle", "shuffle", "slice", "space_to_depth", "transpose", "upsample"},
    "select": {"max_pool", "maximum", "minimum", "reduce_max"},
    "average": {"average_pool", "reduce_mean"},
    "aligned": {"add", "subtract"},
    "weighted": {"conv2d", "conv_transpose", "dense", "depthwise", "linear", "prelu"},
    "computed": {"attention_values", "matmul", "matmul_heads", "multiply", "multiply_channels"},
    "table": {"gelu", "hard_swish", "mish", "sigmoid", "silu", "tanh"},
    "real": {"attention_probabilities", "layer_norm", "masked_attention_probabilities", "softmax"},
}


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
        **dict.fromkeys((*sorted(FORMS["table"]), "prelu", "multiply_channels"), ("x",)),
    }


def test_padding_that_reaches_past_the_edges() -> None:
    assert {name for name, kind in KINDS.items() if kind.pads} == {"conv2d", "depthwise", "average_pool", "max_pool"}


def test_products_cost_multiply_accumulates_and_means_do_not() -> None:
    assert {name for name, kind in KINDS.items() if kind.products} == {
        "attention_values", "conv2d", "conv_transpose", "dense", "depthwise", "linear", "matmul", "matmul_heads",
    }  # fmt: skip
