"""Templates: those that can never match are refused at their place, sizes and names follow from patterns."""

import pytest

from toolchain.operations.library import builtin_kinds
from toolchain.passes.templates import Pattern, Tensor, default_templates, names_of, read_templates
from toolchain.spec.errors import Source, UserError


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "fusion: [{name: a, computes: conv3d, pattern: {op: Conv}}]",
            "p.yaml:1:30: E0107 unknown kind of operation 'conv3d'; did you mean 'conv2d'?",
        ),
        ("fusion: [{name: a, computes: conv2d, pattern: {op: Conv, optional: true, inputs: [x]}}]", "E0915 every node of the pattern is optional"),
        ("fusion: [{name: a, computes: conv2d, pattern: {inputs: [x]}}]", "E0915 a pattern has either"),
        ("fusion: [{name: a, computes: conv2d, pattern: {op: Conv, inputs: [x, w]}, where: [constant: [v]]}]", "E0107 the pattern binds no 'v'"),
        ("fusion: [{name: a, computes: conv2d, pattern: {opp: Conv}}]", "E0108 unknown key 'opp'"),
        (
            "fusion: [{name: a, computes: conv2d, pattern: {op: [Conv, Convv], inputs: [x, w]}}]",
            "E0915 ONNX has no operator 'Convv', so the pattern never matches; did you mean 'Conv'?",
        ),
        (
            "fusion: [{name: a, computes: conv2d, pattern: {op: Relu, inputs: [{op: Conv, inputs: [x]}]}}]",
            "p.yaml:1:78: E0915 the pattern never matches: it has 1 input, and Conv takes 2 to 3",
        ),
        (
            "fusion: [{name: a, computes: conv2d, pattern: {op: [Relu, Sigmoid], inputs: [x, w]}}]",
            "E0915 the pattern never matches: it has 2 inputs, and Relu takes 1, Sigmoid takes 1",
        ),
        (
            "fusion: [{name: a, computes: conv2d, pattern: {op: Conv, as: node, inputs: [x, w]}, where: [attribute: {node.groups: 1}]}]",
            "p.yaml:1:105: E0107 Conv has no attribute 'groups'; did you mean 'group'?",
        ),
        (
            "fusion: [{name: a, computes: conv2d, pattern: {op: Conv, as: node, inputs: [x, w]}, where: [attribute: {x.group: 1}]}]",
            "E0107 'x.group' is no attribute of a node that the pattern binds",
        ),
        (
            "fusion: [{name: a, computes: conv2d, pattern: {op: Conv, as: node, inputs: [x, w]}, where: [attribute: {x: 1}]}]",
            "E0107 'x' is no attribute of a node that the pattern binds",
        ),
    ],
)
def test_templates_without_meaning(text: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        read_templates(Source("p.yaml", text))
    assert words in str(caught.value)


@pytest.mark.parametrize(("inputs", "words"), [("[x, w, b?]", ""), ("[x, '*', b?]", ""), ("[xs*]", ""), ("[x, w]", ""), ("[x, w, b, c]", "E0915")])
def test_inputs_that_an_operator_can_have(inputs: str, words: str) -> None:
    """[x, w] matches a convolution without a bias."""
    source = Source("p.yaml", f"fusion: [{{name: a, computes: conv2d, pattern: {{op: Conv, inputs: {inputs}}}}}]")
    if not words:
        assert read_templates(source)
        return
    with pytest.raises(UserError, match=words):
        read_templates(source)


def test_a_pattern_counts_its_nodes_and_names() -> None:
    """An alternative counts once, by the larger; `*` is no name."""
    small, large = (
        Pattern(("Relu",), "r", inputs=(Tensor("x"),)),
        Pattern(("Add",), "s", inputs=(Pattern(("Exp",), inputs=(Tensor("y"),)), Tensor("*"))),
    )
    assert (small.size, large.size, Pattern(("Mul",), "m", inputs=(Pattern(alternatives=(small, large)),)).size) == (1, 2, 3)
    assert list(names_of(Pattern(("Mul",), "m", inputs=(small, large)))) == ["m", "r", "x", "s", "y", "*"]


def test_every_default_template_computes_a_known_operation() -> None:
    kinds, found = builtin_kinds(), default_templates()
    assert {template.computes for template in found} <= kinds.keys()
    assert all(set(template.operands) <= names_of(template.pattern).keys() for template in found if not template.reader)
