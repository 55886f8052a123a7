"""ONNX's operators and the defaults of their attributes.

A scale and an offset for each channel are what ONNX Runtime computes, or the node is none.

Padding that is written out gives the size and the values of automatic padding, for any window.
"""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.imported import Array, F, imported, normal, run
from tests.graph.onnx_builder import model, n
from toolchain.graph.operators import affine_of, attribute_default, known_operators, pads_of, per_channel, repeats, rounds_up, window_of


def test_operators_have_no_foreign_ones_among_them() -> None:
    assert {"Conv", "Gelu"} <= set(known_operators())
    assert "TreeEnsemble" not in known_operators()


@pytest.mark.parametrize(
    ("operator", "name", "value"),
    [("Gelu", "approximate", "none"), ("Conv", "group", 1), ("LeakyRelu", "alpha", pytest.approx(0.01)), ("Conv", "strides", None),
     ("Conv", "nothing", None), ("Nothing", "group", None)],
)  # fmt: skip
def test_an_attribute_that_is_left_out(operator: str, name: str, value: object) -> None:
    assert attribute_default(operator, name) == value


SHAPES = ((3, 1, 1), (1, 3, 1, 1), (1,), (), (1, 1, 1, 1), (1, 1))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**20), st.sampled_from(["Mul", "Add", "Sub", "Div"]), st.sampled_from(SHAPES), st.booleans())
def test_a_constant_for_each_channel(tmp_path_factory: pytest.TempPathFactory, seed: int, kind: str, shape: tuple[int, ...], turned: bool) -> None:
    values = np.random.default_rng(seed).uniform(0.5, 2, shape).astype(F)
    graph = imported(tmp_path_factory.mktemp("a"), [n(kind, ["k", "x"] if turned else ["x", "k"], ["y"])], constants={"k": values})
    found = affine_of(next(iter(graph.graph)))
    if turned and kind in ("Sub", "Div"):
        assert found is None
        return
    assert found is not None
    x = normal(seed, 1, 3, 4, 4)
    wanted = run(graph, {"x": x})["y"]
    np.testing.assert_allclose(x * found[1].reshape(3, 1, 1) + found[2].reshape(3, 1, 1), wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("epsilon", [1e-5, 0.1])
def test_batch_norm(epsilon: float, tmp_path: Path) -> None:
    constants = {name: np.random.default_rng(number).uniform(0.5, 2, 3).astype(F) for number, name in enumerate("stmv")}
    graph = imported(tmp_path, [n("BatchNormalization", ["x", *"stmv"], ["y"], epsilon=epsilon)], constants=constants)
    found, x = affine_of(next(iter(graph.graph))), normal(0, 1, 3, 4, 4)
    assert found is not None
    np.testing.assert_allclose(x * found[1].reshape(3, 1, 1) + found[2].reshape(3, 1, 1), run(graph, {"x": x})["y"], rtol=1e-5, atol=1e-5)


NONE = {
    "along the width": {"k": np.ones((1, 1, 1, 4), F)},
    "one number a pixel": {"k": np.ones((4, 4), F)},
    "another rank": {"k": np.ones((2, 1, 3, 1, 1), F)},
    "division by zero": {"k": np.array([[[1]], [[0]], [[1]]], F)},
}


@pytest.mark.parametrize("case", NONE)
def test_other_operators_are_none(case: str, tmp_path: Path) -> None:
    graph = imported(tmp_path, [n("Div", ["x", "k"], ["y"])], constants=NONE[case])
    assert affine_of(next(iter(graph.graph))) is None


@given(st.sampled_from([(), (1,), (5,), (1, 5), (5, 1), (2, 1), (2, 5), (1, 1, 5)]))
def test_a_vector_along_the_channels_stands_for_the_broadcast_constant(shape: tuple[int, ...]) -> None:
    array: Array = np.arange(1, 1 + int(np.prod(shape)), dtype=F).reshape(shape)
    found = per_channel(array, (2, 5))
    varies = len(shape) == 2 and shape[0] > 1
    assert (found is None) == (varies or len(shape) > 2)
    if found is not None:
        np.testing.assert_array_equal(np.broadcast_to(array, (2, 5)), np.broadcast_to(found, (2, 5)))


Pair = tuple[int, int]
pairs = st.tuples(st.integers(1, 3), st.integers(1, 3))


def a_size(data: st.DataObject, reach: int, begin: int, end: int) -> int:
    return data.draw(st.integers(max(reach - begin - end, 1), 9))


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"]), pairs, pairs, pairs, st.data())
def test_a_convolution_with_its_padding_written_out(
    tmp_path_factory: pytest.TempPathFactory, mode: str, kernel: Pair, strides: Pair, dilations: Pair, data: st.DataObject
) -> None:
    if mode.startswith("SAME"):
        dilations = (1, 1)  # ONNX Runtime refuses others
    pads = data.draw(st.tuples(*[st.integers(0, 2)] * 4)) if mode == "NOTSET" else (0, 0, 0, 0)
    size = tuple(a_size(data, (kernel[k] - 1) * dilations[k] + 1, pads[k], pads[k + 2]) for k in range(2))
    given_ = {"auto_pad": mode, "strides": strides, "dilations": dilations} | ({"pads": pads} if mode == "NOTSET" else {})
    w = normal(1, 2, 2, *kernel)
    graph = imported(tmp_path_factory.mktemp("w"), [n("Conv", ["x", "w"], ["y"], **given_)], (1, 2, *size), {"w": w})
    x = {"x": normal(0, 1, 2, *size)}
    found = pads_of(next(iter(graph.graph)), kernel, strides, dilations)
    plain = model([n("Conv", ["x", "w"], ["y"], pads=found, strides=strides, dilations=dilations)], {"x": x["x"].shape}, {"y": None}, {"w": w})
    np.testing.assert_array_equal(run(plain, x)["y"], run(graph, x)["y"])


def test_the_window_of_a_pool(tmp_path_factory: pytest.TempPathFactory) -> None:
    nodes = [n("MaxPool", ["x"], ["y"], kernel_shape=[3, 2], auto_pad="SAME_LOWER", strides=[2, 2])]
    pool = next(iter(imported(tmp_path_factory.mktemp("w"), nodes, (1, 2, 6, 5)).graph))
    assert window_of(pool, (3, 2)) == {"kernel_shape": (3, 2), "strides": (2, 2), "pads": (1, 1, 0, 0), "dilations": (1, 1)}
    assert not rounds_up(pool)


FORMS = st.fixed_dictionaries(
    {
        "mode": st.sampled_from(["nearest", "linear", "cubic"]),
        "coordinate_transformation_mode": st.sampled_from(["asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel"]),
        "nearest_mode": st.sampled_from(["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"]),
    }
)


@settings(max_examples=30, deadline=None)
@given(FORMS, st.integers(1, 5), st.integers(1, 5), st.sampled_from([1, 2, 3, 1.5, 2.1, 0.5]), st.sampled_from([1, 2, 4]), st.booleans())
def test_exactly_those_that_repeat(
    tmp_path_factory: pytest.TempPathFactory, form: dict[str, str], height: int, width: int, tall: float, wide: float, sizes: bool
) -> None:
    after = (int(height * tall), width * int(wide))
    if not after[0] or (form["mode"] != "nearest" and min(height, width) == 1):
        return  # one pixel, interpolated with itself, is repeated but for rounding: either answer is right
    constants = {"k": np.array([1, 3, *after]) if sizes else np.array([1, 1, tall, wide], F)}
    operands = ["x", "", "", "k"] if sizes else ["x", "", "k"]
    graph = imported(tmp_path_factory.mktemp("r"), [n("Resize", operands, ["y"], "r", **form)], (1, 3, height, width), constants)
    x = normal(1, 1, 3, height, width)
    found = run(graph, {"x": x})["y"]
    whole = after[0] % height == 0
    same = whole and np.allclose(found, x.repeat(after[0] // height, 2).repeat(after[1] // width, 3), rtol=1e-6, atol=0)
    assert repeats(next(iter(graph.graph))) == same


def test_factors_that_are_computed_are_none(tmp_path: Path) -> None:
    nodes = [n("ReduceMax", ["x"], ["m"], keepdims=0), n("Mul", ["k", "m"], ["s"]), n("Resize", ["x", "", "s"], ["y"], mode="nearest")]
    graph = imported(tmp_path, nodes, constants={"k": np.ones(4, F)})
    assert not repeats(list(graph.graph)[-1])


def test_a_picture_too_large_for_its_numbers_is_not_asked_about(tmp_path: Path) -> None:
    graph = imported(tmp_path, [n("Resize", ["x", "", "k"], ["y"], mode="nearest")], (1, 1, 8192, 4096), {"k": np.array([1, 1, 2, 2], F)})
    assert not repeats(next(iter(graph.graph)))
