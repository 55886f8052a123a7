"""Bindings: operands and attributes of the fused operation, new constants where the graph lacks them, and the reason where there is none."""

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from tests.graph.imported import F, imported, normal
from tests.graph.onnx_builder import n
from toolchain.passes.bindings import Binding, Fused, New, bind
from toolchain.passes.fuse import find_match
from toolchain.passes.templates import Match, default_templates
from toolchain.spec.reasons import Why, text_of

W, B = normal(0, 6, 3, 3, 3), normal(1, 6)
LIMITS = {"zero": F(0), "six": F(6), "one": F(1), "least": F(-1), "inf": F(np.inf)}
CONV = n("Conv", ["x", "w", "b"], ["c"], "conv", strides=[2, 1], pads=[1, 0, 1, 0])


def bound(folder: Path, *nodes: onnx.NodeProto, constants: dict[str, np.ndarray] | None = None) -> Binding:
    """The binding of the first default template that matches the last node."""
    last: ir.Node = list(imported(folder, list(nodes), (1, 3, 8, 8), {"w": W, "b": B, **LIMITS, **(constants or {})}).graph)[-1]
    matches = (find_match(template, last) for template in default_templates())
    return bind(next(match for match in matches if isinstance(match, Match)))


def test_a_convolution_keeps_its_window_and_operands(tmp_path: Path) -> None:
    """Padding at the end that no window reads is dropped: of 8 + 2 rows, windows of 3 in steps of 2 read 9."""
    found = bound(tmp_path, CONV)
    assert isinstance(found, Fused)
    assert (found.variant, [operand.name for operand in found.operands]) == ("", ["x", "w", "b"])
    assert {**found.attributes} == {"strides": (2, 1), "pads": (1, 0, 0, 0), "dilations": (1, 1), "group": 1}


def test_a_bias_that_is_left_out_is_a_new_constant_of_zeros(tmp_path: Path) -> None:
    found = bound(tmp_path, n("Conv", ["x", "w"], ["c"], "conv"))
    assert isinstance(found, Fused)
    bias = found.operands[2]
    assert isinstance(bias, New)
    assert (bias.array.shape, bias.array.dtype, bias.array.any()) == ((6,), np.float32, False)


@pytest.mark.parametrize(
    ("limits", "variant", "attributes"),
    [
        (["zero", "six"], "clip", {"minimum": 0.0, "maximum": 6.0}),
        (["least", "six"], "clip", {"minimum": -1.0, "maximum": 6.0}),
        (["zero"], "relu", {}),
        (["zero", "inf"], "relu", {}),
    ],
)
def test_a_clip_is_an_activation_with_its_limits(limits: list[str], variant: str, attributes: dict[str, float], tmp_path: Path) -> None:
    found = bound(tmp_path, CONV, n("Clip", ["c", *limits], ["y"], "clip"))
    assert isinstance(found, Fused)
    assert found.variant == variant
    assert {name: found.attributes[name] for name in ("minimum", "maximum") if name in found.attributes} == attributes


def test_a_clip_that_leaves_zero_out_is_no_activation(tmp_path: Path) -> None:
    found = bound(tmp_path, CONV, n("Clip", ["c", "one", "six"], ["y"], "clip"))
    assert found == Why.CLIP_WITHOUT_ZERO()
    assert text_of(Why.CLIP_WITHOUT_ZERO())


def test_limits_that_are_computed_are_no_activation(tmp_path: Path) -> None:
    found = bound(tmp_path, CONV, n("ReduceMax", ["x"], ["m"], keepdims=0), n("Clip", ["c", "zero", "m"], ["y"], "clip"))
    assert found == Why.OPEN_CLIP()


def test_a_factor_for_each_channel_is_a_depthwise_convolution(tmp_path: Path) -> None:
    """Its weights are new: [channels, 1, 1, 1] of the factors, with a bias of zeros."""
    factors = np.array([1, 2, 3], F).reshape(3, 1, 1)
    found = bound(tmp_path, n("Mul", ["x", "k"], ["y"], "scale"), constants={"k": factors})
    assert isinstance(found, Fused)
    weights = found.operands[1]
    assert isinstance(weights, New)
    np.testing.assert_array_equal(weights.array.ravel(), factors.ravel())
    assert (weights.array.shape, found.attributes["group"]) == ((3, 1, 1, 1), 3)


ROWS, ENDS = np.array([1]), np.array([3])


def appended(folder: Path, first: int = 1, axis: int = 1, added: int = 1) -> Binding:
    """Rows of x from `first` on, and some of a tensor that is computed of them, behind each other."""
    nodes = [n("Relu", ["x"], ["active"], "active"), n("Slice", ["active", "zeros", "count", "rows"], ["new"], "new")]
    nodes += [n("Slice", ["x", "first", "ends", "rows"], ["kept"], "kept"), n("Concat", ["kept", "new"], ["y"], "join", axis=axis)]
    held = {"first": np.array([first]), "ends": ENDS, "rows": ROWS, "zeros": np.array([0]), "count": np.array([added])}
    last: ir.Node = list(imported(folder, nodes, (1, 3, 16), held).graph)[-1]
    template = next(template for template in default_templates() if template.computes == "append_rows")
    match = find_match(template, last)
    assert isinstance(match, Match)
    return bind(match)


def test_rows_behind_the_last_of_a_sequence_as_many_as_went(tmp_path: Path) -> None:
    found = appended(tmp_path)
    assert isinstance(found, Fused)
    assert [operand.name for operand in found.operands] == ["x", "new"]
    assert isinstance(appended(tmp_path, first=2, added=2), Fused)


@pytest.mark.parametrize(("first", "axis", "added"), [(2, 1, 1), (1, 1, 2), (0, 1, 1)])
def test_other_rows_behind_rows_stay_what_they_are(first: int, axis: int, added: int, tmp_path: Path) -> None:
    assert appended(tmp_path, first, axis, added) == Why.ROWS_BEHIND_ROWS()


def test_channels_beside_channels_are_a_concat(tmp_path: Path) -> None:
    """Two rows each, so that the channels can stand side by side."""
    assert appended(tmp_path, first=1, axis=2, added=2) == Why.OTHER_AXIS()


NORM: dict[str, np.ndarray] = {
    "two": np.array(F(2)),
    "one": np.array(F(1)),
    "last": np.array([-1]),
    "tiny": np.array(F(1e-6)),
    "scale": normal(3, 8),
    "many": normal(4, 8),
}


def norm(inverse: list[onnx.NodeProto], tiny: str = "tiny", power: str = "two") -> list[onnx.NodeProto]:
    """A norm by the root of the mean square of x [1, 3, 8]. inverse: the nodes from `root` to `normal`."""
    first = [n("Reshape", ["picture", "rows"], ["x3"], "rows"), n("Pow", ["x3", power], ["squares"], "squares")]
    mean = [
        n("ReduceMean", ["squares", "last"], ["mean"], "mean"),
        n("Add", ["mean", tiny], ["shifted"], "shifted"),
        n("Sqrt", ["shifted"], ["root"], "root"),
    ]
    return [*first, *mean, *inverse, n("Mul", ["normal", "scale"], ["y"], "y")]


SPELLINGS = {
    "quotient": [n("Div", ["x3", "root"], ["normal"], "normal")],
    "reciprocal": [n("Reciprocal", ["root"], ["inverse"], "inverse"), n("Mul", ["x3", "inverse"], ["normal"], "normal")],
    "one over": [n("Div", ["one", "root"], ["inverse"], "inverse"), n("Mul", ["x3", "inverse"], ["normal"], "normal")],
}


def normed(folder: Path, nodes: list[onnx.NodeProto]) -> Binding | None:
    """The binding of rms_norm, None where no spelling matches."""
    given = {**NORM, "rows": np.array([1, 3, 8])}
    last: ir.Node = list(imported(folder, [n("Identity", ["x"], ["picture"], "same"), *nodes], (1, 3, 8), given).graph)[-1]
    found = [match for template in default_templates() if template.computes == "rms_norm" and isinstance(match := find_match(template, last), Match)]
    return bind(found[0]) if found else None


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_norm_takes_its_epsilon_from_a_constant(spelling: str, tmp_path: Path) -> None:
    found = normed(tmp_path, norm(SPELLINGS[spelling]))
    assert isinstance(found, Fused)
    assert [operand.name for operand in found.operands][1] == "scale"
    assert {**found.attributes} == {"epsilon": pytest.approx(1e-6)}


@pytest.mark.parametrize(("given", "wanted"), [({}, 1e-5), ({"epsilon": 1e-6}, 1e-6)])
def test_a_norm_that_leaves_its_epsilon_out_has_that_of_onnx(given: dict[str, float], wanted: float, tmp_path: Path) -> None:
    node = n("LayerNormalization", ["x", "scale", "offset"], ["y"], "norm", axis=-1, **given)
    last: ir.Node = list(imported(tmp_path, [node], (1, 3, 8), {"scale": normal(3, 8), "offset": normal(4, 8)}).graph)[-1]
    (found,) = [
        match for template in default_templates() if template.computes == "layer_norm" and isinstance(match := find_match(template, last), Match)
    ]
    bound = bind(found)
    assert isinstance(bound, Fused)
    assert {**bound.attributes} == {"epsilon": pytest.approx(wanted)}


@pytest.mark.parametrize(("axis", "bound"), [(None, True), (-1, True), (2, True), (1, False), (-2, False)])
@pytest.mark.parametrize("operator", ["LayerNormalization", "Softmax"])
def test_an_axis_counts_from_either_end(operator: str, axis: int | None, bound: bool, tmp_path: Path) -> None:
    operands = {"LayerNormalization": ["x", "scale", "offset"], "Softmax": ["x"]}[operator]
    node = n(operator, operands, ["y"], "rows", **({} if axis is None else {"axis": axis}))
    shape = (8,) if bound else (3, 8)
    constants = {"scale": normal(3, *shape), "offset": normal(4, *shape)}
    last: ir.Node = list(imported(tmp_path, [node], (1, 3, 8), constants if operator == "LayerNormalization" else {}).graph)[-1]
    kinds = {"LayerNormalization": "layer_norm", "Softmax": "softmax"}
    found = [template for template in default_templates() if template.computes == kinds[operator] and isinstance(find_match(template, last), Match)]
    assert len(found) == bound


def test_a_constant_of_several_numbers_is_no_attribute(tmp_path: Path) -> None:
    found = normed(tmp_path, norm(SPELLINGS["quotient"], tiny="many"))
    assert found is not None
    assert not isinstance(found, Fused)
    assert "epsilon" in text_of(found)
    assert normed(tmp_path, norm(SPELLINGS["quotient"], power="one")) is None
