"""Correcting biases moves the mean of each channel of a layer onto the float network's, as far as the bias has steps."""

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from tests.graph.imported import imported, normal
from tests.graph.onnx_builder import n
from toolchain.graph.calibration.table import calibrate
from toolchain.graph.integers.calls import SCALE, run_reference, zero_of
from toolchain.graph.integers.functions import kind_of
from toolchain.passes.context import Context
from toolchain.passes.correct_bias import CorrectBias
from toolchain.passes.fuse import Fuse
from toolchain.passes.quantize import Quantize
from toolchain.passes.runner import run_passes
from toolchain.spec.errors import UserError
from toolchain.spec.model.quantisation import Numerics, Range

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
