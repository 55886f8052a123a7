"""Operators of older operator sets mean the same at the present one."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from tests.graph.importing.opset_oracle import Array, build, check, kinds, normal, refusal
from tests.graph.onnx_builder import n

OPERATORS = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Pow": np.power, "Greater": np.greater, "Less": np.less}
KINDS = st.sampled_from([*OPERATORS, "And", "Or", "Xor", "Equal"])
LOGICAL = {"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor, "Equal": np.equal}
SHAPE = (2, 3, 4, 5)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([1, 3, 6]), KINDS, st.integers(0, 4), st.integers(0, 4), st.booleans())
def test_an_operand_at_an_axis(seed: int, opset: int, kind: str, start: int, length: int, constant: bool) -> None:
    rng = np.random.default_rng(seed)
    part = SHAPE[start : start + length]
    a, b = rng.uniform(1, 2, SHAPE).astype(np.float32), rng.uniform(1, 2, part).astype(np.float32)
    if kind in LOGICAL:
        a, b = a > 1.5, np.asarray(b > 1.5)
    want = (OPERATORS | LOGICAL)[kind](a, b.reshape(part + (1,) * (4 - start - len(part))) if part else b)
    suffix = start + len(part) == 4
    node = n(kind, ["a", "b"], ["y"], "o", broadcast=1, **({} if suffix and rng.random() < 0.5 else {"axis": start}))
    inputs = {"a": a} if constant else {"a": a, "b": b}
    result = check(build([node], inputs, opset, {"b": b} if constant else {}), inputs, [want], exact=kind != "Pow")
    assert kinds(result) == [kind] if suffix or not part else ["Unsqueeze", kind]


def test_same_shapes_and_single_elements() -> None:
    x = {"a": normal(0, 2, 3), "b": normal(1, 2, 3), "c": normal(2, 1, 1), "d": normal(3, 2)}
    check(build([n("Add", ["a", "b"], ["y"], "o")], x, 6), x, [x["a"] + x["b"]])
    check(build([n("Add", ["a", "c"], ["y"], "o", broadcast=1, axis=0)], x, 6), x, [x["a"] + x["c"]])
    check(
        build([n("Add", ["a", "d"], ["y"], "o", broadcast=1, axis=-2)], x | {"d": normal(3, 2)}, 6),
        x | {"d": normal(3, 2)},
        [x["a"] + normal(3, 2)[:, None]],
    )


def test_an_operand_that_does_not_fit_is_refused() -> None:
    x = {"a": normal(0, 2, 3), "b": normal(1, 2, 3)}
    text = refusal(build([n("Add", ["a", "b"], ["y"], "o", broadcast=1, axis=1)], x, 6))
    assert text == "node 'o' (Add): no equal form of operator set 6 in 21: 2 dimensions do not fit at axis 1 of 2"


@pytest.mark.parametrize("opset", [1, 6])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 3)])
def test_a_slope_for_each_channel(opset: int, shape: tuple[int, ...]) -> None:
    for slopes in (normal(2, 3), normal(2, 1), normal(2)):
        x = {"x": normal(1, *shape), "s": slopes}
        along = slopes.reshape(3, *(1,) * (len(shape) - 2)) if slopes.size == 3 else slopes
        check(build([n("PRelu", ["x", "s"], ["y"], "p")], x, opset), x, [np.where(x["x"] < 0, x["x"] * along, x["x"])])


@pytest.mark.parametrize("opset", [1, 6])
def test_bias_of_a_dense_layer(opset: int) -> None:
    x = {"a": normal(0, 2, 3), "b": normal(1, 4, 3), "c": normal(2, 4)}
    model = build([n("Gemm", ["a", "b", "c"], ["y"], "g", broadcast=1, transB=1, alpha=2.0)], x, opset)
    check(model, x, [2 * x["a"] @ x["b"].T + x["c"]], exact=False)


SIZES = st.lists(st.sampled_from([1, 1, 2, 3, 5]), min_size=1, max_size=5)


@settings(max_examples=45, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(["Softmax", "LogSoftmax", "Hardmax"]), st.sampled_from([1, 7, 11, 12]), SIZES, st.data())
def test_all_dimensions_from_the_axis_on(seed: int, kind: str, opset: int, sizes: list[int], data: st.DataObject) -> None:
    axis = data.draw(st.sampled_from([*range(-len(sizes) if opset >= 11 else 0, len(sizes))] + ([None] if len(sizes) > 1 else [])))
    x = {"x": np.random.default_rng(seed).integers(-3, 4, sizes).astype(np.float32)}
    model = build([n(kind, ["x"], ["y"], "s", **({} if axis is None else {"axis": axis}))], x, opset)
    result = check(model, x, exact=kind == "Hardmax")
    wide = [size for size in sizes[1 if axis is None else axis :] if size > 1]
    assert kinds(result) == ([kind] if len(wide) < 2 else ["Flatten", "Shape", kind, "Reshape"])


@pytest.mark.parametrize("shape", [["batch", 3, 4], ["batch", "length", 4], None])
def test_sizes_that_are_not_known_yet(shape: list[str | int] | None) -> None:
    x = {"x": normal(0, 2, 3, 4)}
    model = build([n("Softmax", ["x"], ["y"], "s")], x, 11)
    model.graph.input[0].type.tensor_type.ClearField("shape")
    for size in shape or []:
        entry = model.graph.input[0].type.tensor_type.shape.dim.add()
        setattr(entry, "dim_param" if isinstance(size, str) else "dim_value", size)
    assert kinds(check(model, x, exact=False)) == ["Flatten", "Shape", "Softmax", "Reshape"]


def test_nothing_to_compute() -> None:
    x = {"x": np.zeros((2, 0, 3), np.float32)}
    check(build([n("Softmax", ["x"], ["y"], "s")], x, 11), x)


def test_an_axis_that_is_not_there_is_refused() -> None:
    x = {"x": normal(0, 4)}
    assert "a tensor of 1 dimensions has no axis 1" in refusal(build([n("Softmax", ["x"], ["y"], "s")], x, 9))


def test_tensors_keep_their_names() -> None:
    x = {"x": normal(0, 2, 3, 4)}
    result = check(build([n("Softmax", ["x"], ["p"], "s"), n("Relu", ["p"], ["y"], "r")], x, 11), x, exact=False)
    assert [(node.name, list(node.output)) for node in result.graph.node] == [
        ("s.flatten", ["s.flatten"]),
        ("s.shape", ["s.shape"]),
        ("s", ["s.inner"]),
        ("s.reshape", ["p"]),
        ("r", ["y"]),
    ]


SEEDS = st.integers(0, 2**32)
BATCH_NORM = ["x", "s", "t", "m", "v"]


def parameters(seed: int, *shape: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {name: rng.uniform(0.5, 2, shape).astype(np.float32) for name in "stmv"}


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.sampled_from([7, 8, 9, 13, 14]), st.sampled_from([(2, 3), (2, 3, 4), (2, 3, 4, 5)]), st.floats(0, 0.1))
def test_batch_norm(seed: int, opset: int, shape: tuple[int, ...], epsilon: float) -> None:
    x = {"x": normal(seed, *shape)} | parameters(seed, 3)
    attributes = {"spatial": 1} if opset < 9 and seed % 2 else {}
    model = build([n("BatchNormalization", BATCH_NORM, ["y"], "b", epsilon=epsilon, **attributes)], x, opset)
    assert kinds(check(model, x)) == ["BatchNormalization"]


@settings(max_examples=20, deadline=None)
@given(SEEDS, st.sampled_from([7, 8]), st.booleans())
def test_a_batch_norm_of_every_element(seed: int, opset: int, constant: bool) -> None:
    x, held = {"x": normal(seed, 2, 3, 4, 5)}, parameters(seed, 3, 4, 5)
    inputs = x if constant else x | held
    model = build([n("BatchNormalization", BATCH_NORM, ["y"], "b", spatial=0)], inputs, opset, held if constant else {})
    check(model, inputs, exact=False)


@pytest.mark.parametrize("opset", [1, 5, 6])
def test_batch_norm_before_7(opset: int) -> None:
    x = {"x": normal(1, 2, 3, 4, 5)} | parameters(2, 3)
    more = {"consumed_inputs": [0, 0, 0, 1, 1]} if opset < 6 else {}
    s, t, m, v = (x[name].reshape(3, 1, 1) for name in "stmv")
    want = (x["x"] - m) / np.sqrt(v + np.float32(1e-5)) * s + t
    check(build([n("BatchNormalization", BATCH_NORM, ["y"], "b", is_test=1, **more)], x, opset), x, [want], exact=False)
    assert "training mode; export the model for inference" in refusal(build([n("BatchNormalization", BATCH_NORM, ["y"], "b", **more)], x, opset))


@pytest.mark.parametrize("opset", [7, 9, 13])
def test_training_stays_training(opset: int) -> None:
    x = {"x": normal(1, 2, 3, 4, 5)} | parameters(2, 3)
    node = n("BatchNormalization", BATCH_NORM, ["y", "mean", "var", "saved_mean", "saved_var"], "b", momentum=0.7)
    check(build([node], x, opset, outputs=["y", "mean", "var"]), x)
    assert "a mean or variance of training is used" in refusal(build([node], x, opset, outputs=["y", "saved_var"]))


def test_outputs_of_neither_kind_are_refused() -> None:
    x = {"x": normal(1, 2, 3)} | parameters(2, 3)
    text = refusal(build([n("BatchNormalization", BATCH_NORM, ["y", "mean"], "b")], x, 9, outputs=["y"]))
    assert "2 outputs are those of neither inference nor training" in text


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.sampled_from([18, 19, 20]), st.sampled_from([1, 2, 3, 6]), st.booleans())
def test_group_norm(seed: int, opset: int, groups: int, half: bool) -> None:
    kind = np.float16 if half else np.float32
    x = {"x": normal(seed, 2, 6, 3, 4).astype(kind), "s": normal(seed + 1, groups).astype(kind), "t": normal(seed + 2, groups).astype(kind)}
    check(build([n("GroupNormalization", ["x", "s", "t"], ["y"], "g", num_groups=groups)], x, opset), x)


@pytest.mark.parametrize("opset", [7, 9, 10, 11, 12, 13])
@pytest.mark.parametrize("masked", [False, True])
def test_dropout(opset: int, masked: bool) -> None:
    x = {"x": normal(1, 2, 3)}
    attributes = {"ratio": 0.3} if opset < 12 else {}
    result = check(build([n("Dropout", ["x"], ["y", "mask"] if masked else ["y"], "d", **attributes)], x, opset), x)
    assert kinds(result) == (["Shape", "Dropout", "ConstantOfShape"] if masked and opset < 12 else ["Dropout"])


def test_a_mask_without_readers_goes() -> None:
    x = {"x": normal(1, 2, 3)}
    model = build([n("Dropout", ["x"], ["d", "mask"], "d"), n("Relu", ["d"], ["y"], "r")], x, 9)
    assert kinds(check(model, x)) == ["Dropout", "Relu"]


@pytest.mark.parametrize("opset", [1, 6])
def test_dropout_before_7(opset: int) -> None:
    x = {"x": normal(1, 2, 3)}
    check(build([n("Dropout", ["x"], ["y"], "d", is_test=1)], x, opset), x, [x["x"]])
    assert "training mode" in refusal(build([n("Dropout", ["x"], ["y"], "d", ratio=0.1)], x, opset))


GROWING = st.sampled_from([1.0, 1.2, 1.5, 1.99, 2.0, 2.3, 3.0, 4.0])
ANY = st.sampled_from([0.3, 0.5, 0.6, 0.75, 0.99, 1.0, 1.3, 2.0, 2.5, 3.0])


def scales(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.sampled_from([7, 8, 9]), st.sampled_from(["nearest", "linear"]), st.integers(2, 7), st.integers(2, 7), GROWING, GROWING)
def test_upsample(seed: int, opset: int, mode: str, height: int, width: int, up: float, along: float) -> None:
    x, s = {"x": normal(seed, 1, 2, height, width)}, scales(1, 1, up, along)
    if opset < 9:
        model = build([n("Upsample", ["x"], ["y"], "u", mode=mode, scales=s.tolist())], x, opset)
    else:
        model = build([n("Upsample", ["x", "s"], ["y"], "u", mode=mode)], x, opset, {"s": s})
    assert kinds(check(model, x, exact=mode == "nearest")) == ["Resize"]


@settings(max_examples=35, deadline=None)
@given(SEEDS, st.sampled_from(["nearest", "linear"]), st.integers(2, 9), st.integers(2, 9), ANY, ANY)
def test_resize_of_operator_set_10(seed: int, mode: str, height: int, width: int, up: float, along: float) -> None:
    x, s = {"x": normal(seed, 1, 2, height, width)}, scales(1, 1, up, along)
    model = build([n("Resize", ["x", "s"], ["y"], "r", mode=mode)], x, 10, {"s": s})
    mixed = mode == "nearest" and (s > 1).any() and (s < 1).any()
    if mixed and int(np.float32(height) * s[2]) <= height and int(np.float32(width) * s[3]) <= width:
        assert "one dimension shrinks, and none is known to grow" in refusal(model)
    else:
        assert kinds(check(model, x, exact=mode == "nearest")) == ["Resize"] * (2 if mixed else 1)


def test_scales_that_are_fed() -> None:
    x = {"x": normal(0, 3, 2, 5, 6), "s": scales(1, 1, 2, 0.5)}
    check(build([n("Resize", ["x", "s"], ["y"], "r", mode="linear")], x, 10), x, exact=False)
    assert "the scales are not constant" in refusal(build([n("Resize", ["x", "s"], ["y"], "r")], x, 10))


def test_upsample_never_shrinks() -> None:
    x = {"x": normal(0, 1, 2, 4, 4)}
    assert "it would shrink" in refusal(build([n("Upsample", ["x"], ["y"], "u", scales=[1.0, 1.0, 2.0, 0.5])], x, 8))
    assert "it would shrink" in refusal(build([n("Upsample", ["x", "s"], ["y"], "u")], x, 9, {"s": scales(1, 1, 2, 0.5)}))


COORDINATES = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]
NEAREST = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]


@settings(max_examples=45, deadline=None)
@given(
    SEEDS,
    st.sampled_from([11, 12, 13, 18, 19]),
    st.sampled_from(["nearest", "linear", "cubic"]),
    st.sampled_from(COORDINATES),
    st.sampled_from(NEAREST),
    st.booleans(),
    ANY,
    ANY,
)
def test_resize_since_11(seed: int, opset: int, mode: str, coordinates: str, nearest: str, by_size: bool, up: float, along: float) -> None:
    x = {"x": normal(seed, 1, 2, 6, 7)}
    attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": coordinates}
    attributes |= {"nearest_mode": nearest} if mode == "nearest" else {}
    sizes = np.array([1, 2, max(1, int(6 * up)), max(1, int(7 * along))])
    given_ = {"roi": scales(), "s": scales() if by_size else scales(1, 1, up, along)} | ({"z": sizes} if by_size else {})
    check(build([n("Resize", ["x", *given_], ["y"], "r", **attributes)], x, opset, given_), x, exact=mode == "nearest")


@settings(max_examples=20, deadline=None)
@given(SEEDS, st.sampled_from([11, 12]), ANY, ANY, st.booleans())
def test_a_cut_is_still_resized(seed: int, opset: int, up: float, along: float, linear: bool) -> None:
    x = {"x": normal(seed, 1, 2, 6, 7)}
    constants = {"roi": scales(0, 0, 0.2, 0.1, 1, 1, 0.8, 1.2), "s": scales(1, 1, up, along)}
    node = n("Resize", ["x", "roi", "s"], ["y"], "r", mode="linear" if linear else "nearest", coordinate_transformation_mode="tf_crop_and_resize")
    check(build([node], x, opset, constants), x, exact=not linear)


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.sampled_from([11, 12]), st.integers(2, 9), st.integers(2, 9), ANY, ANY)
def test_nearest_neighbour_of_tensorflow(seed: int, opset: int, height: int, width: int, up: float, along: float) -> None:
    x, constants = {"x": normal(seed, 1, 2, height, width)}, {"roi": scales(), "s": scales(1, 1, up, along)}
    node = n("Resize", ["x", "roi", "s"], ["y"], "r", coordinate_transformation_mode="tf_half_pixel_for_nn", nearest_mode="floor")
    check(build([node], x, opset, constants), x)


@pytest.mark.parametrize("attributes", [{"nearest_mode": "ceil"}, {}, {"mode": "linear"}])
def test_coordinates_that_no_later_set_has_are_refused(attributes: dict[str, str]) -> None:
    x, constants = {"x": normal(0, 1, 2, 4, 4)}, {"roi": scales(), "s": scales(1, 1, 2, 2)}
    node = n("Resize", ["x", "roi", "s"], ["y"], "r", coordinate_transformation_mode="tf_half_pixel_for_nn", **attributes)
    text = refusal(build([node], x, 11, constants))
    assert text.startswith("node 'r' (Resize): no equal form of operator set 11 in 21: coordinates of the mode tf_half_pixel_for_nn")


@pytest.mark.parametrize("opset", [1, 3, 6])
def test_the_first_upsample(opset: int) -> None:
    x = {"x": normal(1, 1, 2, 3, 4)}
    want = x["x"].repeat(2, 2).repeat(3, 3)
    check(build([n("Upsample", ["x"], ["y"], "u", height_scale=2.0, width_scale=3.0)], x, opset), x, [want])
    model = check(
        build([n("Upsample", ["x"], ["y"], "u", height_scale=2.0, width_scale=2.0, mode="bilinear")], x, opset), x, [_linear(x["x"])], False
    )
    assert model.graph.node[0].attribute[0].s == b"linear"


def _linear(x: np.ndarray) -> np.ndarray:
    """Twice as large, read at half the coordinate."""
    for axis in (2, 3):
        after = np.concatenate([x, x.take([-1], axis)], axis).take(range(1, x.shape[axis] + 1), axis)
        x = np.stack([x, (x + after) / 2], axis + 1).reshape(*(size * (2 if number == axis else 1) for number, size in enumerate(x.shape)))
    return x


def body() -> object:
    """Adds up the elements, squashed by a softmax of old meaning; also gives each sum times a tensor from outside."""
    nodes = [n("Softmax", ["e"], ["p"], "p", axis=0), n("Add", ["s", "p"], ["t"], "t"), n("Mul", ["t", "outside"], ["o"], "o")]
    entries = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "se"]
    return helper.make_graph(nodes, "body", entries, [helper.make_empty_tensor_value_info(name) for name in "to"])


@pytest.mark.parametrize("directions", [None, [0], [1]])
def test_every_sequence_of_the_batch(directions: list[int] | None) -> None:
    x = {"start": normal(1, 4, 2, 3), "x": normal(2, 4, 5, 2, 3), "outside": normal(3, 2, 3)}
    attributes = {} if directions is None else {"directions": directions}
    node = n("Scan", ["", "start", "x"], ["final", "each"], "scan", body=body(), num_scan_inputs=1, **attributes)
    result = check(build([node], x, 8), x, exact=False)
    assert [entry.name for entry in result.graph.node] == ["scan"]


def test_lengths_are_refused() -> None:
    x = {"start": normal(1, 4, 2, 3), "x": normal(2, 4, 5, 2, 3), "outside": normal(3, 2, 3)}
    node = n("Scan", ["lengths", "start", "x"], ["final", "each"], "scan", body=body(), num_scan_inputs=1)
    assert "sequences of different lengths" in refusal(build([node], x, 8, {"lengths": np.array([5, 5, 2, 1])}))
