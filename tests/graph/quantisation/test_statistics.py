"""Sums over a layer's inputs against ONNX Runtime's layers: with random weights, means and products give the outputs' mean and energy.

Drift against convolutions of ONNX Runtime: the layer's float weights on the errors of its inputs, and its products with these inputs.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import helper

from tests.graph.imported import F, run
from tests.graph.onnx_builder import model, n
from tests.graph.quantisation.test_least_squares import output_errors
from toolchain.graph.integers.calls import Call
from toolchain.graph.quantisation import statistics
from toolchain.graph.quantisation.least_squares import Gram, products_of, round_rows
from toolchain.graph.quantisation.statistics import DRIFT_BITS, INPUT_PARTS, JOINED_BYTES, WEIGHT_BITS, columns_of, drift_of, joined, moments_of
from toolchain.operations.library import builtin_kinds

Array = np.ndarray


def call(kind: str, attributes: Mapping[str, Any]) -> Call:
    return Call("c", builtin_kinds()[kind], "", ("x", "w", "b"), "y", attributes)


@settings(max_examples=30, deadline=None)
@given(st.data(), st.sampled_from([1, 2, 4]), st.integers(1, 3))
def test_means_and_products_of_a_convolution(data: st.DataObject, group: int, count: int) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**20)))
    kernel, dilations = (data.draw(st.tuples(st.integers(1, 3), st.integers(1, 2))) for _ in range(2))
    attributes = {
        "strides": data.draw(st.tuples(st.integers(1, 2), st.integers(1, 3))),
        "pads": data.draw(st.tuples(*[st.integers(0, 2)] * 4)),
        "dilations": dilations,
        "group": group,
    }
    reach = [(kernel[k] - 1) * dilations[k] + 1 - attributes["pads"][k] - attributes["pads"][k + 2] for k in range(2)]
    assume(reach[0] <= 6 and reach[1] <= 7)
    inputs = [rng.integers(-128, 128, (1, 4, 6, 7)).astype(np.int8) for _ in range(count)]
    weights = rng.integers(-9, 10, (8, 4 // group, *kernel)).astype(F)
    seen = moments_of(call("conv2d", attributes), inputs, weights.shape)
    proto = model([n("Conv", ["x", "w"], ["y"], **attributes)], {"x": inputs[0].shape}, {"y": None}, {"w": weights})
    outputs = np.concatenate([run(proto, {"x": x.astype(F)})["y"].transpose(1, 0, 2, 3).reshape(8, -1) for x in inputs], 1).astype(np.float64)
    rows = weights.reshape(group, 8 // group, -1).astype(np.float64)
    np.testing.assert_allclose(np.einsum("gok,gk->go", rows, seen.means).ravel(), outputs.mean(1), rtol=1e-9, atol=1e-9)
    energy = np.concatenate([output_errors(part, products) for part, products in zip(rows, map(products_of, seen.inputs), strict=True)])
    np.testing.assert_array_equal(energy, (outputs**2).sum(1))
    assert seen.inputs.shape[1] == outputs.shape[1]


@settings(max_examples=30, deadline=None)
@given(st.data(), st.integers(1, 2))
def test_transposed_convolution(data: st.DataObject, count: int) -> None:
    """Its taps meet pixels, or nothing, between those of its input."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**20)))
    kernel, dilations, strides = (data.draw(st.tuples(*[st.integers(1, 3)] * 2)) for _ in range(3))
    attributes = {
        "strides": strides,
        "pads": data.draw(st.tuples(*[st.integers(0, 2)] * 4)),
        "dilations": dilations,
        "output_padding": tuple(data.draw(st.integers(0, step - 1)) for step in strides),
    }
    inputs = [rng.integers(-128, 128, (1, 4, 6, 7)).astype(np.int8) for _ in range(count)]
    weights = rng.integers(-9, 10, (8, 4, *kernel)).astype(F)
    seen = moments_of(call("conv_transpose", attributes), inputs, weights.shape)
    turned = np.ascontiguousarray(weights.swapaxes(0, 1))
    proto = model([n("ConvTranspose", ["x", "w"], ["y"], **attributes)], {"x": inputs[0].shape}, {"y": None}, {"w": turned})
    outputs = np.concatenate([run(proto, {"x": x.astype(F)})["y"].transpose(1, 0, 2, 3).reshape(8, -1) for x in inputs], 1).astype(np.float64)
    rows = weights.reshape(8, -1).astype(np.float64)
    np.testing.assert_allclose(rows @ seen.means[0], outputs.mean(1), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(output_errors(rows, products_of(seen.inputs[0])), (outputs**2).sum(1))
    assert seen.inputs.shape[1] == outputs.shape[1]


def test_dense() -> None:
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-128, 128, (2, 5)).astype(np.int8) for _ in range(3)]
    seen, x = moments_of(call("dense", {}), inputs, (4, 5)), np.concatenate(inputs).astype(np.float64)
    np.testing.assert_allclose(seen.means, x.mean(0)[None])
    np.testing.assert_array_equal(products_of(seen.inputs[0]), x.T @ x)
    assert seen.inputs.shape[1] == 6


@pytest.mark.parametrize("most", [1, 7, 48, 1000])
def test_of_many_positions_some_are_multiplied_all_are_averaged(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "MAX_ROWS", most)
    inputs = [np.full((1, 1, 4, 4), value, np.int8) for value in (1, 2, 3)]
    attributes = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), "group": 1}
    seen = moments_of(call("conv2d", attributes), inputs, (1, 1, 1, 1))
    assert seen.means.item() == 2
    assert seen.inputs.shape[1] <= min(most, 48)
    assert seen.inputs.shape[1] >= min(most, 48) // 2
    assert seen.inputs.shape[1] <= products_of(seen.inputs[0]).item() <= 9 * seen.inputs.shape[1]
    if most >= 48:
        assert products_of(seen.inputs[0]).item() == 16 * (1 + 4 + 9)


def test_products_of_extremes_are_exact() -> None:
    inputs = [np.full((1, 2, 64, 64), -128, np.int8)]
    attributes = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), "group": 1}
    seen = moments_of(call("conv2d", attributes), inputs, (1, 2, 1, 1))
    assert (products_of(seen.inputs[0]) == 64 * 64 * 128**2).all()


def test_small_samples_are_joined_and_everything_seen_of_them_stays() -> None:
    rng = np.random.default_rng(0)
    shapes = [(1, 2, 5, 5)] * 3 + [(2, 2, 7, 5)] * 2 + [(1, 2, 200, JOINED_BYTES // 400)] * 2
    inputs = [rng.integers(-128, 128, shape).astype(np.int8) for shape in shapes]
    together, floats = joined(inputs, [array * np.float32(0.5) for array in inputs])
    assert [array.shape[0] for array in together] == [3, 4, 1, 1]
    assert all(np.array_equal(one * np.float32(0.5), other) for one, other in zip(together, floats, strict=True))
    attributes = {"pads": (1, 1, 1, 1), "strides": (2, 1), "dilations": (1, 1), "group": 1}
    one, other = (moments_of(call("conv2d", attributes), given, (1, 2, 3, 3)) for given in (inputs, together))
    np.testing.assert_array_equal(one.means, other.means)
    np.testing.assert_array_equal(products_of(one.inputs[0]), products_of(other.inputs[0]))
    assert one.inputs.shape == other.inputs.shape


SCALE = 0.25


@settings(max_examples=25, deadline=None)
@given(st.data(), st.sampled_from([1, 2, 4]))
def test_drift_of_a_convolution(data: st.DataObject, group: int) -> None:
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
    layer = call("conv2d", attributes)
    found = drift_of(layer, inputs, floats, SCALE, weights, moments_of(layer, inputs, weights.shape).inputs)
    proto = model([helper.make_node("Conv", ["x", "w"], ["y"], **attributes)], {"x": inputs[0].shape}, {"y": None}, {"w": weights})
    products, energy = np.zeros(found.products.shape), np.zeros(found.energy.shape)
    products_limit, energy_limit = np.zeros(products.shape), np.zeros(energy.shape)
    for x, real in zip(inputs, floats, strict=True):
        drift = run(proto, {"x": x.astype(F) - real / F(SCALE)})["y"].astype(np.float64).reshape(group, 8 // group, -1)
        columns = columns_of(call("conv2d", attributes), x, weights.shape, np.arange(drift.shape[-1])).astype(np.float64)
        products, energy = products + drift @ columns, energy + (drift**2).sum(2)
        # of weights, of inputs, and of their sums, at most
        step = np.abs(weights).max() * weights[0].size * (2.0**-WEIGHT_BITS + 0.5 / INPUT_PARTS + 2.0 ** (1 - DRIFT_BITS))
        products_limit += step * np.abs(columns).sum(1)[:, None]
        energy_limit += (2 * step * np.abs(drift) + step**2).sum(2)
    assert (np.abs(found.products - products) <= products_limit).all()
    assert (np.abs(found.energy - energy) <= energy_limit).all()
    assert np.abs(found.products - products).mean() <= 0.05 * np.abs(products).mean()


def test_inputs_without_errors_do_not_drift() -> None:
    inputs = [np.arange(-6, 6, dtype=np.int8).reshape(2, 6)]
    found = drift_of(call("dense", {}), inputs, [inputs[0] * F(SCALE)], SCALE, np.ones((3, 6), F), inputs[0][None])
    assert not found.products.any()
    assert not found.energy.any()


def test_weights_take_back_what_they_can() -> None:
    """Inputs that are all a tenth too large: weights a tenth smaller give the float network's outputs."""
    rng = np.random.default_rng(0)
    floats = rng.uniform(0, 100, (400, 4)) * SCALE
    inputs, weights = np.rint(floats / SCALE * 1.1).astype(np.int8), rng.uniform(20, 60, (5, 4))
    layer = call("dense", {})
    gram = Gram(moments_of(layer, [inputs], weights.shape).inputs[0], len(weights))
    drift = drift_of(layer, [inputs], [floats.astype(F)], SCALE, weights, inputs[None])
    plain = round_rows(weights, gram, -128, 127)
    pulled = round_rows(weights, gram, -128, 127, drift.products[0] / gram.unit)
    np.testing.assert_allclose(pulled.sum(), weights.sum() / 1.1, rtol=0.02)
    errors = [float((((inputs @ found.T) - floats / SCALE @ weights.T) ** 2).sum()) for found in (plain, pulled)]
    assert errors[1] < errors[0] / 20
    e = pulled - weights
    told = output_errors(e, products_of(inputs)).sum() + 2 * (e * drift.products[0]).sum() + drift.energy.sum()
    np.testing.assert_allclose(told, errors[1], rtol=0.05)
