"""Equalisation: outputs stay, ranges of channels come closer, and what a factor cannot go through keeps its weights.

Correcting biases moves the mean of each channel of a layer onto the float network's, as far as the bias has steps.
"""

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.imported import imported, normal
from tests.graph.onnx_builder import model, n, save
from toolchain.graph.importing.load import load_graph
from toolchain.graph.integers.calls import SCALE, run_reference, zero_of
from toolchain.graph.integers.functions import kind_of
from toolchain.graph.quantisation.table import calibrate
from toolchain.graph.session import open_session, run_session
from toolchain.graph.store import open_model
from toolchain.passes.context import Context
from toolchain.passes.equalise import LEAST_RANGE, CorrectBias, Equalise, factors_of, groups_of
from toolchain.passes.fuse import Fuse
from toolchain.passes.pipeline import run_passes
from toolchain.passes.quantize import Quantize
from toolchain.passes.remove_qdq import RANGE
from toolchain.spec.errors import UserError
from toolchain.spec.model.quantisation import Numerics, Range

F = np.float32


def residual(seed: int, between: list, group: int = 1) -> tuple[list, dict]:
    """x -> first -> [between] -> sum with a branch of its own -> last and other; the weights of channels differ by up to a thousand times."""
    rng = np.random.default_rng(seed)
    spread = 10.0 ** rng.uniform(-1.5, 1.5, 8)
    constants = {
        "w1": (rng.normal(size=(8, 4, 3, 3)) * spread[:, None, None, None]).astype(F),
        "b1": rng.normal(size=8).astype(F),
        "w2": (rng.normal(size=(8, 6, 1, 1)) * spread[:, None, None, None]).astype(F),
        "w0": rng.normal(size=(6, 8, 1, 1)).astype(F),
        "w3": (rng.normal(size=(8, 8 // group, 3, 3)) / 10).astype(F),
        "w4": (rng.normal(size=(5, 8, 1, 1)) / 10).astype(F),
    }
    nodes = [
        n("Conv", ["x", "w1", "b1"], ["a"], "first", pads=[1, 1, 1, 1]),
        *between,
        n("Conv", ["t", "w0"], ["inner"], "expand"),
        n("Sigmoid", ["inner"], ["bent"], "bend"),
        n("Conv", ["bent", "w2"], ["b"], "project"),
        n("Add", ["t", "b"], ["s"], "sum"),
        n("Conv", ["s", "w3"], ["y"], "last", group=group),
        n("Conv", ["s", "w4"], ["z"], "other"),
    ]
    return nodes, constants


THROUGH = {
    "relu": [n("Relu", ["a"], ["t"], "r")],
    "leaky": [n("LeakyRelu", ["a"], ["t"], "r", alpha=0.1)],
    "pool": [n("MaxPool", ["a"], ["t"], "r", kernel_shape=[3, 3], pads=[1, 1, 1, 1])],
}


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**20), st.sampled_from(sorted(THROUGH)), st.sampled_from([1, 2, 8]), st.sampled_from([0.5, 1.0]))
def test_results_stay_and_ranges_come_closer(tmp_path_factory: pytest.TempPathFactory, seed: int, between: str, group: int, power: float) -> None:
    nodes, constants = residual(seed, THROUGH[between], group)
    path = save(model(nodes, {"x": [1, 4, 6, 6]}, {"y": None, "z": None}, constants), tmp_path_factory.mktemp("e"))
    plain = load_graph(path)
    (before,) = groups_of(plain.graph)
    assert sorted(node.name or "" for node in before.makers) == ["first", "project"]
    assert sorted(node.name or "" for node in before.readers) == ["expand", "last", "other"]
    assert factors_of(before, power).prod() == pytest.approx(1)
    result = run_passes(load_graph(path), [Equalise(power)], Context())
    x = {"x": np.random.default_rng(seed).normal(size=(1, 4, 6, 6)).astype(F)}
    found, wanted = run_session(open_model(result), x), run_session(open_session(path), x)
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-4 * np.abs(array).max())
    (after,) = groups_of(result.graph)
    assert np.abs(np.log(factors_of(after, 1.0))).max() < np.abs(np.log(factors_of(before, 1.0))).max()
    assert not {value.name for value in after.tensors} & {value.name for value in before.tensors}, "other values, other names"


def touched(nodes: list, constants: dict, outputs: dict, folder: Path) -> bool:
    """Whether the pass changes a weight."""
    path = save(model(nodes, {"x": [1, 4, 6, 6]}, outputs, constants), folder)
    return any(name.endswith(".equalised") for name in run_passes(load_graph(path), [Equalise()], Context()).graph.initializers)


def test_limits_that_are_the_same_for_all_channels_end_it(tmp_path: Path) -> None:
    nodes, constants = residual(0, [n("Clip", ["a", "lo", "hi"], ["t"], "clip")])
    assert not touched(nodes, constants | {"lo": F(0), "hi": F(6)}, {"y": None, "z": None}, tmp_path)


@pytest.mark.parametrize("reader", ["output", "Sigmoid", "input"])
def test_other_makers_and_readers_end_it(reader: str, tmp_path: Path) -> None:
    nodes, constants = residual(0, THROUGH["relu"])
    outputs: dict = {"y": None, "z": None}
    if reader == "output":
        outputs["s"] = None
    elif reader == "Sigmoid":
        nodes, outputs = [*nodes, n("Sigmoid", ["s"], ["v"])], outputs | {"v": None}
    else:
        nodes[-3] = n("Add", ["t", "bend8"], ["s"], "sum")
        nodes.insert(-3, n("Sigmoid", ["b"], ["bend8"]))
    assert not touched(nodes, constants, outputs, tmp_path)


def test_a_constant_that_is_added_ends_it(tmp_path: Path) -> None:
    """A factor would have to go into the constant, too."""
    nodes, constants = residual(4, [n("Add", ["a", "shift"], ["t"], "shifted")])
    path = save(model(nodes, {"x": [1, 4, 6, 6]}, {"y": None, "z": None}, constants | {"shift": np.ones((8, 1, 1), F)}), tmp_path)
    assert list(groups_of(load_graph(path).graph)) == []


def test_a_chain_without_a_sum_is_left(tmp_path: Path) -> None:
    """Where one layer reads another alone, rectified linear units between them mostly have limits of their own."""
    _, constants = residual(0, [])
    nodes = [n("Conv", ["x", "w1", "b1"], ["a"], "first"), n("Relu", ["a"], ["t"]), n("Conv", ["t", "w4"], ["y"], "last")]
    assert not touched(nodes, {name: constants[name] for name in ("w1", "b1", "w4")}, {"y": None}, tmp_path)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**20), st.sampled_from(["BatchNormalization", "Conv"]), st.booleans())
def test_what_a_depthwise_layer_reads_is_equalised(tmp_path_factory: pytest.TempPathFactory, seed: int, maker: str, normed: bool) -> None:
    """Made by a scale and an offset of each channel or a convolution; read by a batch norm too."""
    rng = np.random.default_rng(seed)
    constants = {"s": rng.normal(size=4).astype(F), "o": rng.normal(size=4).astype(F), "m": rng.normal(size=4).astype(F),
                 "v": rng.uniform(0.5, 2, 4).astype(F), "w": rng.normal(size=(4, 4, 1, 1)).astype(F),
                 "d": (rng.normal(size=(4, 1, 3, 3)) * 10.0 ** rng.uniform(-1.5, 1.5, (4, 1, 1, 1))).astype(F)}  # fmt: skip
    first = n(maker, ["x", *({"Conv": ["w", "o"], "BatchNormalization": ["s", "o", "m", "v"]}[maker])], ["a"], "first")
    more = [n("BatchNormalization", ["a", "s", "o", "m", "v"], ["z"], "norm")] if normed else [n("Relu", ["x"], ["z"], "other")]
    nodes = [first, n("Conv", ["a", "d"], ["y"], "depthwise", group=4, pads=[1, 1, 1, 1]), *more]
    path = save(model(nodes, {"x": [1, 4, 6, 6]}, {"y": None, "z": None}, constants), tmp_path_factory.mktemp("e"))
    (before,) = groups_of(load_graph(path).graph)
    result = Equalise(1.0).run(load_graph(path), Context())
    x = {"x": rng.normal(size=(1, 4, 6, 6)).astype(F)}
    found, wanted = run_session(open_model(result), x), run_session(open_session(path), x)
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-4 * np.abs(array).max())
    (after,) = groups_of(result.graph)
    assert np.abs(np.log(factors_of(after, 1.0))).max() <= np.abs(np.log(factors_of(before, 1.0))).max()


def test_a_model_that_is_quantised_keeps_its_weights(tmp_path: Path) -> None:
    nodes, constants = residual(0, THROUGH["relu"])
    loaded = load_graph(save(model(nodes, {"x": [1, 4, 6, 6]}, {"y": None, "z": None}, constants), tmp_path))
    next(node for node in loaded.graph if node.name == "sum").outputs[0].metadata_props[RANGE] = "0x1p+3"
    names = set(loaded.graph.initializers)
    assert set(run_passes(loaded, [Equalise()], Context()).graph.initializers) == names


def test_a_channel_without_weights_gets_no_wild_factor(tmp_path: Path) -> None:
    """It would make its bias, and with it the range of the whole tensor, large."""
    nodes, constants = residual(0, THROUGH["relu"])
    for name in ("w1", "w2"):
        constants[name][3] = 0
    (group,) = groups_of(load_graph(save(model(nodes, {"x": [1, 4, 6, 6]}, {"y": None, "z": None}, constants), tmp_path)).graph)
    found = factors_of(group, 1.0)
    assert found[3] == found.min()
    assert found.max() / found.min() <= 1 / LEAST_RANGE


NODES = [n("Conv", ["x", "w"], ["a"], "one"), n("Conv", ["a", "v"], ["y"], "two")]
SAMPLES = {"x": np.abs(normal(2, 6, 1, 3, 4, 4))}
"""Never negative, so that the mean error of rounded weights does not vanish by itself."""


def network(folder: Path) -> ir.Model:
    return imported(folder, NODES, constants={"w": normal(0, 5, 3, 1, 1), "v": normal(1, 4, 5, 1, 1)})


@pytest.mark.parametrize(
    "numerics",
    [
        Numerics(weight=Range(-7, 7)),
        Numerics(weight=Range(-7, 7), per_channel=True),
        Numerics(weight=Range(-7, 7), form="multiplier", per_channel=True, shift=Range(0, 46)),
        Numerics(weight=Range(-7, 7), form="multiplier", shift=Range(0, 46), zero_points=True, activation=Range(0, 255)),
        Numerics(weight=Range(-7, 7), form="float32", per_channel=True, zero_points=True),
    ],
    ids=["shift", "shifts", "multiplier", "zero points", "float32"],
)
def test_means_meet(numerics: Numerics, tmp_path: Path) -> None:
    table = calibrate(network(tmp_path), SAMPLES)
    context = Context("net.onnx", numerics=numerics, table=table, samples=SAMPLES)
    errors = []
    plain = [Fuse(), Quantize(correct=False, weights="per_channel")]
    for steps in (plain, [*plain, CorrectBias()]):
        model = run_passes(network(tmp_path), steps, context)
        found = [run_reference(model, {"x": x}, numerics) for x in SAMPLES["x"]]
        outputs = {node.name: node.outputs[0] for node in model.graph if kind_of(node) == "conv2d"}
        means = {name: np.mean([each[value.name or ""] for each in found], (0, 1, 3, 4)) - zero_of(value) for name, value in outputs.items()}
        errors.append({name: np.abs(means[name] - np.array(table.tensors[tensor].means) / float.fromhex(outputs[name].metadata_props[SCALE]))
                       for name, tensor in (("one", "a"), ("two", "y"))})  # fmt: skip
    for name, left in errors[1].items():
        assert left.max() < 0.3  # of a stored step: what rounding each result may shift a mean of 96 by
        assert left.mean() < errors[0][name].mean()


def test_what_it_needs_is_told(tmp_path: Path) -> None:
    model = run_passes(network(tmp_path), [Fuse(), Quantize()], Context(numerics=Numerics(), table=calibrate(network(tmp_path), SAMPLES)))
    with pytest.raises(UserError, match=r"^net.onnx: E0918 there is no calibration table, no sample"):
        CorrectBias().run(model, Context("net.onnx", numerics=Numerics()))
