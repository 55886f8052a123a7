"""Weights by the error of outputs: closer to the float network than rounding to the nearest, the same bytes twice, within bounded memory."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from tests.graph.imported import normal
from tests.graph.onnx_builder import model, n
from tests.passes.test_quantize import NARROW, RULES, branchy, folded, samples
from toolchain.accuracy.errors import error_table, measure_errors
from toolchain.graph.integers.calls import note_reasons, run_oracle, run_reference
from toolchain.graph.quantisation.table import calibrate
from toolchain.passes import refine
from toolchain.passes.context import Context
from toolchain.passes.fuse import Fuse
from toolchain.passes.pipeline import run_passes
from toolchain.passes.quantize import Quantize
from toolchain.spec.model.quantisation import Numerics, Range
from toolchain.spec.reasons import Why

STORED = Numerics().activation

COARSE = Range(-15, 15)


def quantised(method: str, numerics: Numerics, folder: Path, said: list[str] | None = None) -> tuple[ir.Model, ir.Model]:
    """The float network and the integer one."""
    base = folded(branchy(), folder)
    inputs = samples(24)
    context = Context("net.onnx", numerics=numerics, table=calibrate(base, inputs), samples=inputs, say=(said or []).append)
    return folded(branchy(), folder), run_passes(base, [Fuse(), Quantize(method=method, weights="per_channel")], context)


@pytest.mark.parametrize(("rule", "gain"), [("plain", 1.0), ("narrow", 1.0), ("shifts", 0.0), ("channel", 0.0)])
def test_outputs_are_closer_on_new_samples(rule: str, gain: float, tmp_path: Path) -> None:
    numerics = replace(RULES[rule], weight=COARSE)
    found = []
    for method in ("fast", "accurate"):
        reference, result = quantised(method, numerics, tmp_path)
        found.append({row.tensor: row.sqnr for row in error_table(reference, result, samples(12, 99), STORED)}["d1"])
    assert found[1] > found[0] + gain


def test_the_machine_computes_these_integers(tmp_path: Path) -> None:
    _, result = quantised("accurate", NARROW, tmp_path)
    x = {"x": samples(1, 5)["x"][0]}
    oracle, reference = run_oracle(result, x), run_reference(result, x, NARROW)
    assert all(np.array_equal(array, reference[name]) for name, array in oracle.items() if array.dtype == np.int8)


def test_what_both_networks_begin_with_runs_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Operators of the host before the first integers: the same weights as by two runs of them."""
    nodes = [
        n("Sin", ["x"], ["a"], "first"),
        n("Cos", ["a"], ["b"], "second"),
        n("MatMul", ["b", "w"], ["c"], "dense"),
        n("Sin", ["c"], ["y"], "last"),
    ]
    proto, given = model(nodes, {"x": [1, 8]}, {"y": [1, 8]}, {"w": normal(0, 8, 8)}), {"x": normal(1, 20, 1, 8)}
    found, counts = list[np.ndarray](), list[int]()
    real = refine._run_alike

    def counted(*given: Any) -> int:
        counts.append(real(*given))
        return counts[-1]

    for alike in (counted, lambda *_: 0):
        monkeypatch.setattr(refine, "_run_alike", alike)
        context = Context("net.onnx", numerics=NARROW, table=calibrate(folded(proto, tmp_path), given), samples=given)
        result = run_passes(folded(proto, tmp_path), [Fuse(), Quantize(method="accurate")], context)
        found.append(np.concatenate([value.const_value.numpy().ravel() for value in result.graph.initializers.values() if value.const_value]))
    assert counts == [2]
    np.testing.assert_array_equal(*found)


def test_the_same_twice_with_a_word_for_each_layer(tmp_path: Path) -> None:
    results = []
    for _ in range(2):
        said: list[str] = [""]
        results.append(quantised("accurate", NARROW, tmp_path, said)[1])
        assert [line.split(", ")[1] for line in said if line.startswith("operator")] == ["conv1", "depthwise", "conv3", "dense"]
    arrays = [{name: value.const_value.numpy() for name, value in result.graph.initializers.items() if value.const_value} for result in results]
    assert arrays[0].keys() == arrays[1].keys()
    assert all(np.array_equal(array, arrays[1][name]) for name, array in arrays[0].items())


def test_large_tensors_are_seen_on_fewer_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = folded(branchy(), tmp_path)
    largest = 8 * 8 * 8 * 4
    assert refine.affordable(base, 7) == 7
    monkeypatch.setattr(refine, "MAX_BYTES", 3 * largest)
    assert refine.affordable(base, 7) == 3
    monkeypatch.setattr(refine, "MAX_BYTES", 1)
    assert refine.affordable(base, 7) == 1


def test_layers_on_the_host_are_passed_over(tmp_path: Path) -> None:
    """Their results are the float network's."""
    base = run_passes(folded(branchy(), tmp_path), [Fuse()], Context())
    note_reasons(next(node for node in base.graph if node.name == "conv3"), Why.KEPT())
    inputs = samples(8)
    context = Context("net.onnx", numerics=NARROW, table=calibrate(base, inputs), samples=inputs)
    result = run_passes(base, [Quantize(method="accurate")], context)
    assert measure_errors(None, folded(branchy(), tmp_path), result, samples(4, 7), STORED).outputs["y"].sqnr > 15
