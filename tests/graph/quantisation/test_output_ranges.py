"""Scales by the outputs of layers: what a layer ignores may be cut off, what it multiplies may not."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.imported import F, imported
from tests.graph.onnx_builder import n
from toolchain.graph.integers.calls import read_call
from toolchain.graph.integers.functions import FUSED
from toolchain.graph.quantisation.output_ranges import Choice, Reader, judge_scales
from toolchain.graph.rewrite import constant
from toolchain.operations.library import builtin_kinds
from toolchain.passes.context import Context
from toolchain.passes.fuse import Fuse
from toolchain.spec.model.quantisation import Numerics

SCALES = (1.0, 0.5, 0.25)


def judged(folder: Path, x: np.ndarray, weights: np.ndarray, zero: int = 0) -> Choice:
    """The choice for the input of a 1x1 convolution, x [count, 1, channels, h, w]."""
    model = Fuse().run(imported(folder, [n("Conv", ["x", "w"], ["y"], "y")], x.shape[1:], {"w": weights}), Context())
    (node,) = (node for node in model.graph if node.domain == FUSED)
    array = constant(node.inputs[1])
    assert array is not None
    choice = Choice(SCALES, zero)
    judge_scales(model, {"x": choice}, {"x": [Reader(read_call(node, builtin_kinds()), array)]}, {"x": x}, len(x), Numerics())
    return choice


@pytest.mark.parametrize(("weight", "best"), [(1.0, 1.0), (1e-4, 0.25)])
def test_a_large_channel_counts_by_its_weight(weight: float, best: float, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-4, 4, (2, 1, 2, 8, 8)).astype(F)
    x[:, :, 1] *= 30
    assert judged(tmp_path, x, np.array([[1.0, weight]], F).reshape(1, 2, 1, 1)).best == best


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**20), st.floats(1.0, 80.0))
def test_errors_are_those_of_the_outputs(tmp_path_factory: pytest.TempPathFactory, seed: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    x, weights = (rng.normal(size=(2, 1, 3, 4, 4)) * size / 3).astype(F), rng.normal(size=(4, 3, 1, 1)).astype(F)
    choice = judged(tmp_path_factory.mktemp("j"), x, weights)
    rows, columns = weights.reshape(4, 3).astype(np.float64), x.transpose(2, 0, 1, 3, 4).reshape(3, -1).astype(np.float64)
    for scale, error in zip(SCALES, choice.errors, strict=True):
        noise = rows @ (np.clip(np.rint(columns / scale), -128, 127) * scale - columns)
        assert error == pytest.approx(np.square(noise).sum() / np.square(rows @ columns).sum(), rel=0.05, abs=1e-4)


def test_what_no_layer_reads_is_judged_by_its_values(tmp_path: Path) -> None:
    model = imported(tmp_path, [n("Relu", ["x"], ["y"])], (1, 2, 8, 8))
    x = np.random.default_rng(0).normal(size=(2, 1, 2, 8, 8)).astype(F) * F(10)
    choices = {"x": Choice(SCALES), "y": Choice(SCALES)}
    judge_scales(model, choices, {}, {"x": x}, 2, Numerics())
    assert choices["x"].best == choices["y"].best == 0.25
    assert Choice(SCALES).best == 1.0
