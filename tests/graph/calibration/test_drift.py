"""Drift against convolutions of ONNX Runtime: the layer's float weights on the errors of its inputs, and its products with these inputs."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from tests.graph.imported import F, run
from tests.graph.onnx_builder import model
from toolchain.graph.calibration.drift import DROPPED, INPUT_PARTS, WEIGHT_PARTS, drift_of
from toolchain.graph.calibration.statistics import columns_of, moments_of
from toolchain.graph.integers.calls import Call
from toolchain.graph.quantisation.least_squares import Gram, output_errors, products_of, round_rows
from toolchain.operations.library import builtin_kinds

SCALE = 0.25
Array = np.ndarray


def call(kind: str, attributes: Mapping[str, Any]) -> Call:
    return Call("c", builtin_kinds()[kind], "", ("x", "w", "b"), "y", attributes)


@settings(max_examples=25, deadline=None)
@given(st.data(), st.sampled_from([1, 2, 4]))
def test_convolution(data: st.DataObject, group: int) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**20)))
    attributes = {
        "strides": data.draw(st.tuples(st.integers(1, 2), st.integers(1, 2))),
        "pads": data.draw(st.tuples(*[st.integers(0, 2)] * 4)),
        "dilations": (1, 1),
        "group": group,
    }
    inputs = [rng.integers(-128, 128, (1, 4, 6, 5)).astype(np.int8) for _ in range(2)]
    floats = [((x + rng.integers(-INPUT_PARTS, INPUT_PARTS, x.shape) / INPUT_PARTS) * SCALE).astype(F) for x in inputs]
    weights = rng.normal(size=(8, 4 // group, 2, 3)).astype(F)
    found = drift_of(call("conv2d", attributes), inputs, floats, SCALE, weights)
    proto = model([helper.make_node("Conv", ["x", "w"], ["y"], **attributes)], {"x": inputs[0].shape}, {"y": None}, {"w": weights})
    products, energy = np.zeros(found.products.shape), np.zeros(found.energy.shape)
    step = float(np.abs(weights).max()) * DROPPED / WEIGHT_PARTS / INPUT_PARTS  # to which drift is rounded
    products_limit, energy_limit = np.zeros(products.shape), np.zeros(energy.shape)
    for x, real in zip(inputs, floats, strict=True):
        drift = run(proto, {"x": x.astype(F) - real / F(SCALE)})["y"].astype(np.float64).reshape(group, 8 // group, -1)
        columns = columns_of(call("conv2d", attributes), x, weights.shape, np.arange(drift.shape[-1])).astype(np.float64)
        products, energy = products + drift @ columns, energy + (drift**2).sum(2)
        products_limit += step * np.abs(columns).sum(1)[:, None]
        energy_limit += (2 * step * np.abs(drift) + step**2).sum(2)
    assert (np.abs(found.products - products) <= products_limit).all()
    assert (np.abs(found.energy - energy) <= energy_limit).all()
    assert np.abs(products).max() > 10 * step


def test_inputs_without_errors_do_not_drift() -> None:
    inputs = [np.arange(-6, 6, dtype=np.int8).reshape(2, 6)]
    found = drift_of(call("dense", {}), inputs, [inputs[0] * F(SCALE)], SCALE, np.ones((3, 6), F))
    assert not found.products.any()
    assert not found.energy.any()


def test_weights_take_back_what_they_can() -> None:
    """Inputs that are all a tenth too large: weights a tenth smaller give the float network's outputs."""
    rng = np.random.default_rng(0)
    floats = rng.uniform(0, 100, (400, 4)) * SCALE
    inputs, weights = np.rint(floats / SCALE * 1.1).astype(np.int8), rng.uniform(20, 60, (5, 4))
    layer = call("dense", {})
    gram = Gram(moments_of(layer, [inputs], weights.shape).inputs[0], len(weights))
    drift = drift_of(layer, [inputs], [floats.astype(F)], SCALE, weights)
    plain = round_rows(weights, gram, -128, 127)
    pulled = round_rows(weights, gram, -128, 127, drift.products[0] / gram.unit)
    np.testing.assert_allclose(pulled.sum(), weights.sum() / 1.1, rtol=0.02)
    errors = [float((((inputs @ found.T) - floats / SCALE @ weights.T) ** 2).sum()) for found in (plain, pulled)]
    assert errors[1] < errors[0] / 20
    e = pulled - weights
    told = output_errors(e, products_of(inputs)).sum() + 2 * (e * drift.products[0]).sum() + drift.energy.sum()
    np.testing.assert_allclose(told, errors[1], rtol=0.05)
