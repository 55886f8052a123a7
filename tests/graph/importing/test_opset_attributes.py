"""Attributes that became inputs, were dropped or changed defaults, at every operator set where the operator had another form."""

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.importing.opset_oracle import Array, build, check, kinds, normal, refusal, run
from tests.graph.onnx_builder import n

SEEDS = st.integers(0, 2**32)
FLOAT = np.finfo(np.float32)
REDUCTIONS = ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.sampled_from([6, 7, 10]), st.none() | st.floats(-2, 2, width=32), st.none() | st.floats(-2, 2, width=32))
def test_clip(seed: int, opset: int, low: float | None, high: float | None) -> None:
    x = {"x": normal(seed, 3, 7)}
    x["x"][0, :4] = [np.inf, -np.inf, FLOAT.max, np.nan]
    given_ = {name: value for name, value in (("min", low), ("max", high)) if value is not None}
    model = build([n("Clip", ["x"], ["y"], "c", **given_)], x, opset)
    if low is not None and high is not None and low > high:
        assert "its lower limit lies above the upper one" in refusal(model)
        return
    result = check(model, x)
    assert kinds(result) == ["Clip"]
    assert len(result.graph.initializer) == len(given_)


def test_the_first_clip_had_no_limits() -> None:
    x = {"x": np.array([-np.inf, -2, 2, np.inf], np.float32)}
    check(build([n("Clip", ["x"], ["y"], "c", max=1.0)], x, 1), x, [np.array([-np.inf, -2, 1, 1], np.float32)])
    check(build([n("Clip", ["x"], ["y"], "c")], x, 5), x, [x["x"]])


@pytest.mark.parametrize("kind", [np.float16, np.float64])
def test_limits_have_the_type_of_the_data(kind: type) -> None:
    x = {"x": np.array([-9, 0, 9], kind)}
    check(build([n("Clip", ["x"], ["y"], "c", min=-1.5)], x, 10), x, [np.array([-1.5, 0, 9], kind)])


def test_limits_of_an_unknown_type_are_cast() -> None:
    x = {"x": normal(0, 2, 3)}
    nodes = [n("Gelu", ["x"], ["g"], "g", domain="com.microsoft"), n("Clip", ["g"], ["y"], "c", min=0.0, max=0.5)]
    model = build(nodes, x, 10)
    model.opset_import.add(domain="com.microsoft", version=1)
    model.graph.output[0].type.tensor_type.elem_type = 1
    assert kinds(check(model, x)) == ["Gelu", "CastLike", "CastLike", "Clip"]


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.sampled_from([2, 7, 10]), st.sampled_from(["constant", "reflect", "edge"]), st.sampled_from([np.float32, np.float64]))
def test_pad(seed: int, opset: int, mode: str, kind: type) -> None:
    rng = np.random.default_rng(seed)
    x = {"x": rng.normal(size=(1, 2, 4, 5)).astype(kind)}
    pads = [0, 0, *rng.integers(-1 if mode == "constant" else 0, 3, 2).tolist()] * 2
    attributes: dict[str, Any] = {"value": float(rng.choice([0, 1.5, -2]))} if rng.random() < 0.7 else {}
    check(build([n("Pad", ["x"], ["y"], "p", pads=pads, mode=mode, **attributes)], x, opset), x)


def test_the_first_pad_had_another_name() -> None:
    x = {"x": normal(0, 2, 3)}
    model = build([n("Pad", ["x"], ["y"], "p", paddings=[1, 0, 0, 2], value=3.0)], x, 1)
    check(model, x, [np.pad(x["x"], ((1, 0), (0, 2)), constant_values=3)])


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.sampled_from([1, 7, 9]))
def test_slice(seed: int, opset: int) -> None:
    rng = np.random.default_rng(seed)
    x, count = {"x": rng.normal(size=(4, 5, 6)).astype(np.float32)}, int(rng.integers(1, 4))
    attributes: dict[str, Any] = {
        "starts": rng.integers(-7, 7, count).tolist(),
        "ends": rng.choice([-3, -1, 2, 4, 9, 2**31, 2**63 - 1], count).tolist(),
    }
    if rng.random() < 0.7:
        attributes["axes"] = rng.permutation(3)[:count].tolist()
    check(build([n("Slice", ["x"], ["y"], "s", **attributes)], x, opset), x)


@settings(max_examples=35, deadline=None)
@given(SEEDS, st.sampled_from(REDUCTIONS), st.sampled_from([1, 7, 11, 12, 13, 17]), st.sampled_from([np.float32, np.int32, np.float64]))
def test_reduction(seed: int, kind: str, opset: int, dtype: type) -> None:
    rng = np.random.default_rng(seed)
    x = {"x": rng.uniform(1, 5, (2, 3, 4)).astype(dtype)}
    axes = rng.permutation(3)[: rng.integers(0, 4)]
    attributes: dict[str, Any] = {"keepdims": int(rng.integers(2))} if rng.random() < 0.7 else {}
    inputs, constants = ["x"], {}
    if rng.random() < 0.8 and kind == "Sum" and opset >= 13:
        inputs, constants = ["x", "axes"], {"axes": axes}
    elif rng.random() < 0.8:
        attributes["axes"] = (axes - (3 if opset >= 11 and rng.random() < 0.5 else 0)).tolist()
    if kind == "Sum" and opset >= 13:
        attributes.pop("axes", None)
    if attributes.get("axes") == []:
        del attributes["axes"]  # onnx cannot write an empty list with its type
    if dtype is np.float64 and kind in ("L1", "L2", "LogSum"):
        x["x"] = x["x"].astype(np.float32)
    check(build([n(f"Reduce{kind}", inputs, ["y"], "r", **attributes)], x, opset, constants), x)


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.sampled_from([1, 7, 11, 12]), st.booleans())
def test_squeeze_and_unsqueeze(seed: int, opset: int, squeeze: bool) -> None:
    rng = np.random.default_rng(seed)
    x = {"x": normal(seed, 1, 3, 1, 2)}
    if squeeze:
        axes = [[0], [2], [0, 2], [2, 0], None][rng.integers(5)]
        node = n("Squeeze", ["x"], ["y"], "s", **({} if axes is None else {"axes": axes}))
    else:
        axes = [[0], [2], [0, 5], [5, 0], [1, 3, 4]][rng.integers(5)]
        node = n("Unsqueeze", ["x"], ["y"], "s", axes=[axis - 4 - len(axes) if opset >= 11 and rng.random() < 0.5 else axis for axis in axes])
    check(build([node], x, opset), x)


def test_an_empty_list_of_axes() -> None:
    """Every axis to a reduction, none to Unsqueeze; what it is to Squeeze is not agreed on."""
    x, axes = {"x": normal(0, 1, 3)}, onnx.AttributeProto(name="axes", type=onnx.AttributeProto.INTS)
    nodes = [n(kind, ["x"], ["y"], "s") for kind in ("ReduceMax", "Unsqueeze", "Squeeze")]
    for node in nodes:
        node.attribute.append(axes)
    for node in nodes[:2]:
        check(build([node], x, 11), x)
    assert "the list of axes is empty" in refusal(build([nodes[2]], x, 11))


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.sampled_from([2, 7, 11, 12, 13, 17]), st.booleans())
def test_split(seed: int, opset: int, equal: bool) -> None:
    x = {"x": normal(seed, 4, 6, 2)}
    axis = [None, 0, 1, -2][np.random.default_rng(seed).integers(4 if opset >= 11 else 3)]
    attributes: dict[str, Any] = {} if axis is None else {"axis": axis}
    inputs, constants, parts = ["x"], dict[str, Array](), [1, 4, 1] if axis else [3, 1]
    if not equal and opset >= 13:
        inputs, constants = ["x", "parts"], {"parts": np.array(parts)}
    elif not equal:
        attributes["split"] = parts
    check(build([n("Split", inputs, [f"y{number}" for number in range(len(parts))], "s", **attributes)], x, opset, constants), x)


def test_the_first_split_took_its_sizes_as_numbers_of_the_data() -> None:
    x = {"x": normal(0, 5, 2)}
    model = build([n("Split", ["x", "sizes"], ["a", "b"], "s", axis=0)], x, 1, {"sizes": np.array([2, 3], np.float32)})
    check(model, x, [x["x"][:2], x["x"][2:]])
    fed = x | {"sizes": np.array([2, 3], np.float32)}
    assert "the sizes are not constant" in refusal(build([n("Split", ["x", "sizes"], ["a", "b"], "s", axis=0)], fed, 1))


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.sampled_from([1, 7, 9]), st.integers(1, 4), st.sampled_from([-1, 0, 1]))
def test_top_k_with_ties(seed: int, opset: int, count: int, axis: int) -> None:
    x = {"x": np.random.default_rng(seed).integers(0, 3, (4, 5)).astype(np.float32)}
    check(build([n("TopK", ["x"], ["y", "i"], "t", k=count, axis=axis)], x, opset), x)


def test_counts_that_do_not_fit_are_refused() -> None:
    x = {"x": normal(0, 5, 2)}
    assert "5 elements have no 2 equal parts" in refusal(build([n("Split", ["x"], ["a", "b"], "s")], x, 13))
    assert "0 is no count" in refusal(build([n("TopK", ["x"], ["y", "i"], "t", k=0)], x, 9))


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.sampled_from([17, 18, 19]), st.sampled_from([None, 0, 1, 2, -2, -3]), st.booleans(), st.booleans(), st.booleans())
def test_fourier(seed: int, opset: int, axis: int | None, inverse: bool, complex_: bool, longer: bool) -> None:
    x = {"x": normal(seed, 2, 5, 4, 2 if complex_ else 1)}
    attributes = {} if axis is None else {"axis": axis}
    constants = {"length": np.array(6)} if longer else {}
    model = build(
        [n("DFT", ["x", *constants], ["y"], "d", inverse=int(inverse), onesided=int(not inverse and not complex_), **attributes)], x, opset, constants
    )
    check(model, x)


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.sampled_from([None, "bilinear", "nearest", "bicubic"]), st.sampled_from(["zeros", "border", "reflection"]), st.booleans())
def test_grid(seed: int, mode: str | None, padding: str, corners: bool) -> None:
    rng = np.random.default_rng(seed)
    x = {"x": normal(seed, 1, 2, 4, 5), "grid": rng.choice(np.linspace(-1.5, 1.5, 25), (1, 3, 3, 2)).astype(np.float32)}
    attributes = {} if mode is None else {"mode": mode}
    check(build([n("GridSample", ["x", "grid"], ["y"], "g", padding_mode=padding, align_corners=int(corners), **attributes)], x, 16 + seed % 4), x)


@settings(max_examples=20, deadline=None)
@given(SEEDS, st.sampled_from([9, 10]), st.integers(0, 1))
def test_scatter(seed: int, opset: int, axis: int) -> None:
    rng = np.random.default_rng(seed)
    x = {"x": normal(seed, 3, 4), "i": rng.permutation(3)[:2].reshape(1, 2).repeat(1, 0), "u": normal(seed, 1, 2)}
    assert kinds(check(build([n("Scatter", ["x", "i", "u"], ["y"], "s", axis=axis)], x, opset), x)) == ["ScatterElements"]


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.sampled_from([10, 11, 15]), st.sampled_from(["avg", "max"]), st.integers(0, 3))
def test_regions(seed: int, opset: int, mode: str, ratio: int) -> None:
    rng = np.random.default_rng(seed)
    corners = np.sort(rng.uniform(0, 9, (3, 2, 2)), 1).reshape(3, 4).astype(np.float32)
    x = {"x": normal(seed, 2, 2, 10, 10), "rois": corners, "batch": rng.integers(0, 2, 3)}
    node = n("RoiAlign", ["x", "rois", "batch"], ["y"], "r", mode=mode, output_height=3, output_width=2, sampling_ratio=ratio, spatial_scale=0.5)
    check(build([node], x, opset), x)


@pytest.mark.parametrize("opset", [1, 3, 5])
def test_old_defaults(opset: int) -> None:
    x = {"x": normal(1, 2, 3)}
    want = np.where(x["x"] > 0, np.float32(1.0507) * x["x"], np.float32(1.0507 * 1.6732) * (np.exp(x["x"]) - 1)).astype(np.float32)
    check(build([n("Selu", ["x"], ["y"], "s", consumed_inputs=[0])], x, opset), x, [want], exact=False)
    concat = n("Concat", ["x", "x"], ["y"], "c", **({} if opset < 4 else {"axis": 1}))
    check(build([concat], x, opset), x, [np.concatenate([x["x"], x["x"]], 1)])


def test_cast_to_a_name() -> None:
    x = {"x": np.array([-1.5, 2.5], np.float32)}
    check(build([n("Cast", ["x"], ["y"], "c", to="INT32")], x, 5), x, [np.array([-1, 2], np.int32)])
    assert "'INT33' is no type" in refusal(build([n("Cast", ["x"], ["y"], "c", to="INT33")], x, 1))


@pytest.mark.parametrize("opset", [1, 4])
def test_reshape_and_tile(opset: int) -> None:
    x = {"x": normal(1, 2, 3, 4)}
    check(build([n("Reshape", ["x"], ["y"], "r", shape=[0, -1], consumed_inputs=[0])], x, opset), x, [x["x"].reshape(2, 12)])
    constants = {"times": np.array(3, np.float32), "axis": np.array([1], np.float32)}
    check(build([n("Tile", ["x", "times", "axis"], ["y"], "t")], x, opset, constants), x, [np.tile(x["x"], (1, 3, 1))])
    assert "the rank or the number of copies is not known" in refusal(build([n("Tile", ["x", "times", "axis"], ["y"], "t")], x | constants, opset))


def test_power_of_a_pool() -> None:
    x = {"x": np.abs(normal(1, 1, 2, 4, 4))}
    check(build([n("GlobalLpPool", ["x"], ["y"], "p", p=3.0)], x, 1), x, [(x["x"] ** 3).sum((2, 3), keepdims=True) ** (1 / 3)], exact=False)
    blocks = (x["x"] ** 2).reshape(1, 2, 2, 2, 2, 2).sum((3, 5)) ** 0.5
    check(build([n("LpPool", ["x"], ["y"], "p", kernel_shape=[2, 2], strides=[2, 2])], x, 1), x, [blocks], exact=False)
    text = refusal(build([n("GlobalLpPool", ["x"], ["y"], "p", p=2.5)], x, 1))
    assert text == "node 'p' (GlobalLpPool): no equal form of operator set 1 in 21: the power 2.5 is not whole"
    assert "the window has no size" in refusal(build([n("LpPool", ["x"], ["y"], "p")], x, 1))


@pytest.mark.parametrize("opset", [1, 3, 6])
@pytest.mark.parametrize(("kind", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_recurrent(kind: str, gates: int, opset: int) -> None:
    """The form of operator set 7, without the attribute, is the same."""
    x, constants = {"x": normal(1, 5, 2, 3)}, {"w": normal(2, 1, gates * 4, 3), "r": normal(3, 1, gates * 4, 4)}
    more: dict[str, Any] = {"direction": "foward"} if kind == "GRU" and opset < 3 else {}
    old = build([n(kind, ["x", "w", "r"], ["y", "h"], "r", hidden_size=4, output_sequence=1, **more)], x, opset, constants)
    new = build([n(kind, ["x", "w", "r"], ["y", "h"], "r", hidden_size=4)], x, 7, constants)
    assert kinds(check(old, x, run(new, x))) == [kind]
