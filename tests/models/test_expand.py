"""Blocks, repeats, branches, references and defaults written out; every mistake with its place."""

import pytest

from tests.models.small import network
from toolchain.models.operators import Add, Concat, Convolution, Leaky, Normalisation, Relu, Window
from toolchain.spec.errors import UserError


def test_layers_follow_each_other() -> None:
    found = network("  - conv: {out: 8}\n  - relu\n")
    assert [(layer.name, layer.inputs) for layer in found.layers] == [("conv", ("image",)), ("relu", ("conv",))]
    assert found.layers[0].operator == Convolution(8, Window((1, 1)))
    assert found.outputs == ("relu",)


def test_a_convolution_brings_its_batch_norm_and_activation_and_then_has_no_bias() -> None:
    found = network("  - conv: {out: 8, norm: true, act: leaky, slope: 0.25}\n")
    assert [layer.name for layer in found.layers] == ["conv", "conv.norm", "conv.leaky"]
    assert [layer.operator for layer in found.layers] == [Convolution(8, Window((1, 1)), bias=False), Normalisation(), Leaky(0.25)]


def test_defaults_hold_where_a_layer_says_nothing() -> None:
    found = network("  - conv: {out: 8}\n  - conv: {out: 8, act: none}\n", "defaults: {conv: {act: relu6}}\n")
    assert [layer.operator for layer in found.layers if not isinstance(layer.operator, Convolution)] == [Relu(6)]


def test_repeats_count_from_0_and_their_last_result_has_the_name() -> None:
    found = network("  - conv: {name: c, repeat: 3, out: 4 << index}\n  - add: {of: [c, c]}\n")
    assert [(layer.name, layer.shape[1]) for layer in found.layers[:3]] == [("c.0", 4), ("c.1", 8), ("c.2", 16)]
    assert found.layers[3].inputs == ("c.2", "c.2")


def test_when_leaves_layers_out() -> None:
    found = network("  - conv: {repeat: 3, out: 8, when: index != 1}\n  - relu: {when: channels > 8}\n")
    assert [layer.name for layer in found.layers] == ["conv.0", "conv.2"]


def test_blocks_know_their_parameters_their_index_and_the_incoming_sizes() -> None:
    blocks = (
        "blocks:\n  unit: {takes: [wide], layers: [conv: {out: wide * (index + 1)}, conv: {out: channels, groups: channels, kernel: [height, 1]}]}\n"
    )
    found = network("  - unit: {repeat: 2, wide: 3}\n", blocks)
    assert [(layer.name, layer.shape[1:]) for layer in found.layers] == [
        ("unit.0/conv", (3, 12, 10)),
        ("unit.0/conv2", (3, 1, 10)),
        ("unit.1/conv", (6, 1, 10)),
        ("unit.1/conv2", (6, 1, 10)),
    ]


def test_branches_begin_at_the_incoming_tensor() -> None:
    found = network("  - conv: {name: first, out: 8}\n  - concat: {of: [[], [conv: {out: 4}, relu], first, [maxpool: {kernel: 3, pad: 1}]]}\n")
    last = found.layers[-1]
    assert last.operator == Concat()
    assert last.inputs == ("first", "relu", "first", "maxpool")
    assert last.shape == (1, 28, 12, 10)
    assert found.layers[1].inputs == found.layers[3].inputs == ("first",)


def test_input_is_what_a_block_is_applied_to() -> None:
    blocks = "blocks:\n  residual: {layers: [conv: {out: 8}, relu, add: {of: [input, relu, conv]}]}\n"
    found = network("  - conv: {name: stem, out: 8}\n  - residual\n", blocks)
    assert found.layers[-1].operator == Add()
    assert found.layers[-1].inputs == ("stem", "residual/relu", "residual/conv")


def test_outputs_are_named_results() -> None:
    text = "  - conv: {name: a, out: 8}\n  - conv: {name: b, from: input, out: 8}\noutputs: [b, a]\n"
    found = network(text)
    assert found.outputs == ("b", "a")
    assert found.layers[1].inputs == ("image",)


BLOCK = "blocks:\n  unit: {takes: [wide], layers: [conv: {out: wide}]}\n  round: {layers: [round]}\n"
MISTAKES = [
    ("cnov: {out: 3}", "5 E0801 unknown layer 'cnov'; did you mean 'conv'?"),
    ("unti: {wide: 3}", "5 E0801 unknown layer 'unti'; did you mean 'unit'?"),
    ("relu: {from: imag}", "18 E0802 nothing before here is named 'imag'; did you mean 'image'?"),
    ("add: {of: [image, later]}", "23 E0802 nothing before here is named 'later'"),
    ("conv: {out: 3, kernel: 13}", "5 E0803 the window 13x13 is larger than the padded image 12x10"),
    ("conv: {out: 6, groups: 3}", "5 E0803 4 channels in and 6 out cannot be divided into 3 groups"),
    ("dense: {out: 3}", "5 E0803 a dense layer takes a vector or a sequence, not 1x4x12x10; put 'flatten' before it"),
    ("add: {of: [[], [conv: {out: 3}]]}", "5 E0803 cannot add tensors of different shapes: 1x4x12x10, 1x3x12x10"),
    ("concat: {of: [[], [maxpool]]}", "5 E0803 these differ in more than channels: 1x4x12x10, 1x4x11x9"),
    ("upsample: {factor: 100000}", "5 E0803 the result 1x4x1200000x1000000 has more than 2147483648 elements"),
    ("conv: {out: 3, stride: [1, 2 - 2]}", "32 E0804 0 is not between 1 and 1048576"),
    ("conv: {out: 3, pad: -1}", "25 E0804 -1 is not between 0 and 1048576"),
    ("conv", "5 E0804 this layer needs 'out'"),
    ("add", "5 E0804 this layer needs 'of'"),
    ("relu: {repeat: 30000}", "5 E0805 more than 20000 layers"),
    ("relu: {repeat: 1 << 20, when: 0}", "5 E0805 more than 100000 repeats"),
    ("round", "20 E0805 blocks nest deeper than 16: does 'round' use itself?"),
    ("unit: {widht: 3}", "12 E0806 the block 'unit' takes no 'widht'; did you mean 'wide'?"),
    ("unit", "5 E0806 the block 'unit' needs wide"),
    ("relu: {name: image}", "18 E0809 the name 'image' is taken"),
    ("conv: {out: depth}", "17 E0107 unknown name 'depth'; did you mean 'width'?"),
    ("conv: {out: 3 +}", "17 E0120 cannot read the expression '3 +'"),
    ("conv: {out: 3, krenel: 3}", "20 E0108 unknown key 'krenel' in layers.0.conv; did you mean 'kernel'?"),
    ("conv: {kernel: 3}", "5 E0109 missing key 'out' in layers.0.conv"),
    (
        "conv: {out: 3, act: gulu}",
        "25 E0116 'gulu' is not one of 'none', 'relu', 'relu6', 'leaky', 'gelu', 'tanh', 'sigmoid', 'silu'; did you mean 'gelu'?",
    ),
    ("conv: {out: 3, pad: [1, 2, 3]}", "25 E0116 a pad is one number, [height, width], [top, left, bottom, right], 'half' or 'same'"),
    ("{relu: , norm: }", "5 E0116 a layer is a word such as 'relu', or one key with its arguments such as 'conv: {out: 64}'; mind the indentation"),
]


@pytest.mark.parametrize(("layer", "expected"), MISTAKES, ids=[text for _, text in MISTAKES])
def test_mistakes_are_told_with_their_place(layer: str, expected: str) -> None:
    with pytest.raises(UserError) as caught:
        network(f"  - {layer}\n", BLOCK)
    (found,) = caught.value.diagnostics
    assert found.headline() == f"{found.span}: {expected.split(' ', 1)[1]}"
    assert found.span is not None
    assert str(found.span.column) == expected.split(" ", 1)[0]
    assert found.span.line == (5 if layer == "round" else 7)


def test_results_that_nothing_uses_are_told_together() -> None:
    with pytest.raises(UserError) as caught:
        network("  - conv: {name: a, out: 8}\n  - relu: {from: input}\n  - conv: {name: b, from: input, out: 8}\n")
    assert [found.headline() for found in caught.value.diagnostics] == [
        "small.yaml:4:5: E0810 nothing uses the result of 'a'",
        "small.yaml:5:5: E0810 nothing uses the result of 'relu'",
    ]


def test_a_network_without_layers_is_told() -> None:
    with pytest.raises(UserError, match="E0805 every layer is left out"):
        network("  - relu: {when: 0}\n")


def test_a_block_cannot_have_the_name_of_a_layer() -> None:
    with pytest.raises(UserError, match="E0809 'conv' is the name of a kind of layer, so no block can have it"):
        network("  - relu\n", "blocks:\n  conv: {layers: [relu]}\n")


def test_an_unknown_output_is_told() -> None:
    with pytest.raises(UserError, match="E0802 nothing before here is named 'ruel'; did you mean 'relu'"):
        network("  - relu\noutputs: [ruel]\n")
