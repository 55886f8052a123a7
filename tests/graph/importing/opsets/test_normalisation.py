"""Batch and group norm and dropout in the forms of every old operator set."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.importing.opsets.oracle import Array, build, check, kinds, n, normal, refusal

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
