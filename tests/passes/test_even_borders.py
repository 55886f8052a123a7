"""Factors at the borders: what a network computes stays, ranges of channels come closer, and integers lose less where channels differ."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.onnx_builder import model, n, save
from tests.passes.test_fold import PASSES
from tests.passes.test_quantize import RULES
from toolchain.accuracy.errors import measure_errors
from toolchain.graph.importing.load import load_graph
from toolchain.graph.integers.calls import EVENED, FLOAT_NAME, factors_of, integer_tensors, is_candidate, run_oracle
from toolchain.graph.quantisation.table import calibrate
from toolchain.graph.session import run_session
from toolchain.graph.store import open_model
from toolchain.operations.library import builtin_kinds
from toolchain.passes.context import Context
from toolchain.passes.equalise import LEAST_RANGE
from toolchain.passes.even_borders import borders_of, even_borders
from toolchain.passes.fuse import Fuse
from toolchain.passes.leave import leave_border_activations
from toolchain.passes.pipeline import run_passes
from toolchain.passes.quantize import Quantize

F = np.float32
POOL = n("MaxPool", ["k"], ["p"], "pool", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
JOIN = n("Concat", ["g", "h"], ["k"], "join", axis=1)


def gated(folder: Path, seed: int = 0, group: int = 1, ending: str = "Sigmoid") -> ir.Model:
    """Two gates on the host whose channels differ by up to a thousand times -> join -> pool -> convolution -> the host again."""
    rng = np.random.default_rng(seed)
    spread = 10.0 ** rng.uniform(-1.5, 1.5, (1, 12, 1, 1))
    constants = {
        "s": np.tile(spread[:, :4], (1, 1, 6, 6)).astype(F),
        "t": np.tile(spread[:, 4:], (1, 1, 6, 6)).astype(F),
        "w": (rng.normal(size=(12, 12 // group, 3, 3)) / spread.reshape(1, 12, 1, 1)[:, : 12 // group] ** 0.5).astype(F),
        "b": rng.normal(size=12).astype(F),
        "w4": rng.normal(size=(8, 4, 1, 1)).astype(F),
    }
    nodes = [
        n("Softsign", ["x"], ["x1"], "bend"),
        n("Mul", ["x1", "s"], ["g"], "gate"),
        n("Conv", ["x", "w4"], ["x8"], "widen"),
        n("Mul", ["x8", "t"], ["h0"], "other"),
        n("Relu", ["h0"], ["h"], "open"),
        JOIN,
        POOL,
        n("Conv", ["p", "w", "b"], ["c"], "last", pads=[1, 1, 1, 1], group=group),
        n(ending, ["c"], ["y"], "end"),
    ]
    path = save(model(nodes, {"x": [1, 4, 6, 6]}, {"y": None}, constants), folder)
    fused = run_passes(load_graph(path, {}), [*PASSES, Fuse()], Context())
    leave_border_activations(fused, builtin_kinds())
    return fused


def pictures(count: int, seed: int = 0) -> dict[str, Any]:
    return {"x": np.random.default_rng(seed).normal(size=(count, 1, 4, 6, 6)).astype(F)}


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**20), st.sampled_from([1, 3, 12]), st.sampled_from([0.5, 0.75, 1.0]))
def test_results_stay_and_ranges_come_closer(tmp_path_factory: pytest.TempPathFactory, seed: int, group: int, power: float) -> None:
    network, samples = gated(tmp_path_factory.mktemp("e"), seed, group), pictures(4, seed)
    table = calibrate(network, samples)
    evened = even_borders(network, samples, 4, table, builtin_kinds(), power)
    names = [node.metadata_props[EVENED] for node in evened.model.graph if EVENED in node.metadata_props]
    assert names == [value.name for value in borders_of(network, builtin_kinds())] == ["g", "h"]
    assert set(evened.table.tensors) - set(table.tensors) == {"g.even", "h.even", "k.even", "p.even"}
    for x in samples["x"]:
        wanted, found = (run_session(open_model(each), {"x": x})["y"] for each in (network, evened.model))
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    if power == 1.0:
        before, after = (float(ranges.max() / ranges.min()) for ranges in (channel_ranges(evened.model, samples, name) for name in ("g", "g.even")))
        assert after < 1.1 * max(1.0, before * LEAST_RANGE)


def channel_ranges(network: ir.Model, samples: dict[str, Any], name: str) -> Any:
    (value,) = [value for node in network.graph for value in node.outputs if value.name == name]
    found = [run_session(open_model(network, [value]), {"x": x})[name] for x in samples["x"]]
    return np.abs(np.concatenate(found)).max((0, 2, 3))


def test_a_tensor_with_another_reader_on_the_machine_keeps_its_channels(tmp_path: Path) -> None:
    """A sum does not take a factor of each channel, nor does an input of the model that a program fills."""
    constants = {"w": np.ones((4, 4, 1, 1), F)}
    conv = n("Conv", ["g", "w"], ["c"], "conv")
    nodes = [n("Softsign", ["x"], ["g"], "bend"), conv, n("Add", ["c", "g"], ["y"], "sum")]
    fused = run_passes(load_graph(save(model(nodes, {"x": [1, 4, 6, 6]}, {"y": None}, constants), tmp_path), {}), [*PASSES, Fuse()], Context())
    assert sum(map(is_candidate, fused.graph)) == 2
    assert not list(borders_of(fused, builtin_kinds()))
    plain = [n("Conv", ["x", "w"], ["c"], "conv"), n("Softsign", ["c"], ["y"], "bend")]
    fused = run_passes(load_graph(save(model(plain, {"x": [1, 4, 6, 6]}, {"y": None}, constants), tmp_path), {}), [*PASSES, Fuse()], Context())
    assert not list(borders_of(fused, builtin_kinds()))


@pytest.mark.parametrize("rule", ["plain", "channel", "twice", "places", "single"])
def test_integers_lose_less_and_both_ways_agree(rule: str, tmp_path: Path) -> None:
    numerics, samples = RULES[rule], pictures(8)
    found = dict[float, float]()
    for even in (0.0, 0.75):
        network = gated(tmp_path, ending="Softsign")
        context = Context("net.onnx", numerics=numerics, table=calibrate(network, samples), samples=samples, recorded=True)
        integer = run_passes(network.clone(), [Quantize(even=even, float_percent=0.0)], context)
        run_oracle(integer, {"x": pictures(1, 9)["x"][0]})
        errors = measure_errors(None, network, integer, pictures(4, 5), numerics.activation)
        found[even] = errors.outputs["y"].sqnr
        factors = {value.metadata_props[FLOAT_NAME]: factors_of(value).size for value in integer_tensors(integer)}
        assert (factors["g"], factors["h"]) == ((4, 8) if even else (1, 1))
        assert {row.tensor for row in errors.tensors} == set(factors) - {"k.even", "p.even"}
        assert not [node for node in integer.graph if EVENED in node.metadata_props or node.op_type == "Relu"]
    assert found[0.75] > found[0.0] + 3


def test_factors_need_samples_that_are_real(tmp_path: Path) -> None:
    network, samples = gated(tmp_path), pictures(4)
    context = Context("net.onnx", numerics=RULES["plain"], table=calibrate(network, samples), samples=samples)
    for each in (context, replace(context, recorded=True, table=replace(calibrate(network, samples), failure="none"))):
        integer = run_passes(network.clone(), [Quantize()], each)
        assert all(factors_of(value).size == 1 for value in integer_tensors(integer))
