"""Channels with one shift in common need no vector of shifts: the network is the one with a scale for each tensor."""

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from tests.graph.imported import imported, normal
from tests.graph.onnx_builder import n
from toolchain.graph.integers.calls import run_oracle, run_reference
from toolchain.graph.integers.functions import integer_domain
from toolchain.graph.quantisation.table import calibrate
from toolchain.graph.rewrite import constant
from toolchain.passes.context import Context, Device
from toolchain.passes.fuse import Fuse
from toolchain.passes.pipeline import run_passes
from toolchain.passes.quantize import Quantize
from toolchain.spec.errors import UserError
from toolchain.spec.model.quantisation import Numerics

NODES = [n("Conv", ["x", "w"], ["a"], "one"), n("LeakyRelu", ["a"], ["b"], alpha=0.25), n("Conv", ["b", "v"], ["y"], "two")]
SAMPLES = {"x": normal(2, 6, 1, 3, 4, 4)}
OWN = Numerics(per_channel=True)


def quantised(folder: Path, weights: str, numerics: Numerics, factors: tuple[float, ...], device: Device | None = None) -> ir.Model:
    """factors: of the channels that the first convolution makes."""
    w = np.sign(normal(0, 4, 3, 1, 1)) * np.array(factors, np.float32).reshape(-1, 1, 1, 1)
    base = imported(folder, NODES, constants={"w": w, "v": np.sign(normal(1, 4, 4, 1, 1))})
    context = Context("net.onnx", numerics=numerics, table=calibrate(base, SAMPLES), device=device)
    return run_passes(base, [Fuse(), Quantize(weights=weights)], context)


@pytest.mark.parametrize("numerics", [OWN, Numerics()], ids=["channels", "tensors"])
def test_one_shift_in_common_is_one_shift(numerics: Numerics, tmp_path: Path) -> None:
    asked, plain = (ir.to_proto(quantised(tmp_path, weights, numerics, (1, 1, 1, 1))) for weights in ("per_channel", "per_tensor"))
    assert asked.graph.SerializeToString(deterministic=True) == plain.graph.SerializeToString(deterministic=True)
    assert {each.name for each in asked.functions} == {each.name for each in plain.functions}


def test_a_further_machine_of_the_graph_has_one_shift_too(tmp_path: Path) -> None:
    device = Device("other", lambda _: (), domain=integer_domain(1, "other"))
    model = quantised(tmp_path, "per_channel", OWN, (1, 1, 1, 1), device)
    called = {node.name: (node.domain, node.op_type) for node in model.graph if node.name in ("one", "two")}
    assert called == {"one": (device.domain, "conv2d__leaky"), "two": (device.domain, "conv2d")}
    assert {name.removesuffix("__channels") for _, name, _ in model.functions} == {name for _, name, _ in model.functions}


def test_others_keep_theirs(tmp_path: Path) -> None:
    model = quantised(tmp_path, "per_channel", OWN, (1, 0.25, 1, 0.5))
    called = {node.name: node.op_type for node in model.graph if node.name in ("one", "two")}
    assert called == {"one": "conv2d__leaky__channels", "two": "conv2d"}
    shifts = constant(next(node for node in model.graph if node.name == "one").inputs[-1])
    assert shifts is not None
    assert (shifts - shifts.min()).tolist() == [0, 2, 0, 1]
    x = {"x": SAMPLES["x"][0]}
    oracle, reference = run_oracle(model, x), run_reference(model, x, OWN)
    assert all(np.array_equal(array, reference[name]) for name, array in oracle.items() if array.dtype == np.int8)


def test_another_word_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"E0912 'weights' cannot be 'each' .*; known: per_tensor, per_channel"):
        quantised(tmp_path, "each", OWN, (1, 1, 1, 1))
