"""One core of the many-core machine compiles networks: multipliers for each channel, one rounding, sums of two tensors by factors."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.verify.builds import build
from tests.verify.networks import random_model
from toolchain.verify.ladder import verify_model
from toolchain.verify.reference_sample import SampleSize
from toolchain.verify.verdict import ModelVerdict, verdict_text

SAMPLE = SampleSize(instructions=6, elements=1, whole=0, seed=0)


def verdict(model: str | Path, folder: Path, machine: str = "stcp920") -> ModelVerdict:
    _, built, samples = build(machine, str(model), folder)
    return verify_model(built, samples, SAMPLE)


@pytest.mark.parametrize("machine", ["stcp920", "stcp920:datasheet"])
def test_digits_is_exact(machine: str, tmp_path: Path) -> None:
    found = verdict("digits", tmp_path, machine)
    assert found.exact, verdict_text(found)
    assert (found.tensors, len(found.regions)) == (12, 1)
    assert (found.closeness.outputs["logits"].sqnr or 0.0) > 36


@pytest.mark.parametrize("seed", [1, 2, 5])
def test_random_networks(seed: int, tmp_path: Path) -> None:
    path = random_model(seed, tmp_path)
    found = verdict(path, tmp_path / "build")
    assert found.exact, verdict_text(found)


def test_products_of_computed_tensors_need_no_instruction_of_their_own(tmp_path: Path) -> None:
    """Squeeze-and-excite, a product and a difference of pictures, enlarged: all in one region."""
    rng = np.random.default_rng(3)
    weights = {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in {"w": (40, 3, 3, 3), "v": (40, 40, 1, 1)}.items()}
    scales = np.array([1, 1, 2, 2], np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["a"], ["g"]),
        helper.make_node("Conv", ["g", "v"], ["gate"]),
        helper.make_node("Mul", ["a", "gate"], ["b"]),
        helper.make_node("Mul", ["a", "b"], ["c"]),
        helper.make_node("Sub", ["c", "a"], ["d"]),
        helper.make_node("Resize", ["d", "", "scales"], ["y"], mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
    ]
    ends = [helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", [1, 3, 9, 11]), ("y", [1, 40, 18, 22]))]
    constants = [onnx.numpy_helper.from_array(array, name) for name, array in {**weights, "scales": scales}.items()]
    model = helper.make_model(helper.make_graph(nodes, "se", ends[:1], ends[1:], constants), opset_imports=[helper.make_opsetid("", 17)])
    path = tmp_path / "se.onnx"
    onnx.save(model, path)
    found = verdict(path, tmp_path / "build")
    assert found.exact, verdict_text(found)
    assert (len(found.regions), found.tensors) == (1, 8)
