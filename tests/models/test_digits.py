"""The trained network: its accuracy in ONNX Runtime is what its file states, on images that neither trained nor calibrated it."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from toolchain.models.build import build_model
from toolchain.models.load import load_model
from toolchain.models.model import Layered
from toolchain.models.samples import calibration_samples, labelled_samples
from toolchain.models.shape_graph import shape_graph

ROOT = Path(__file__).resolve().parents[2]
DIGITS = load_model("digits")


def test_accuracy_is_what_the_file_states(tmp_path: Path) -> None:
    session = onnxruntime.InferenceSession(str(build_model(DIGITS, tmp_path)))
    found = labelled_samples(DIGITS)
    assert found is not None
    images, labels = found
    answers = [session.run(None, {"image": image})[0].argmax() for image in images["image"]]
    assert DIGITS.test is not None
    assert round(float((np.array(answers) == labels).mean()), 3) == DIGITS.test.accuracy
    assert DIGITS.test.accuracy >= 0.98


def test_every_class_is_tested_about_as_often() -> None:
    found = labelled_samples(DIGITS)
    assert found is not None
    assert found[1] is not None
    counts = np.bincount(found[1], minlength=10)
    assert counts.sum() == 600
    assert counts.min() > 40


def test_no_calibration_image_is_a_test_image() -> None:
    found = labelled_samples(DIGITS)
    assert found is not None
    calibration = {image.tobytes() for image in calibration_samples(DIGITS)["image"]}
    assert len(calibration) == 100
    assert not calibration & {image.tobytes() for image in found[0]["image"]}


def test_pixels_are_whole_eighths_from_minus_1_to_1() -> None:
    images = calibration_samples(DIGITS)["image"]
    assert (images * 8 == np.rint(images * 8)).all()
    assert (images.min(), images.max()) == (-1, 1)


def test_the_graph_is_the_declared_one_with_a_stride_a_pool_a_residual_and_a_dense_layer() -> None:
    declared = load_model(str(ROOT / "models" / "digits" / "network.yaml"))
    assert isinstance(declared.origin, Layered)
    stored = onnx.load(ROOT / "models" / "digits" / "digits.onnx")
    assert list(stored.graph.node) == list(shape_graph("digits", declared.origin.network, declared.shapes).proto.graph.node)
    assert {node.op_type for node in stored.graph.node} == {"Conv", "BatchNormalization", "Relu", "Add", "MaxPool", "Flatten", "Gemm"}


@pytest.mark.parametrize("name", ["digits.onnx", "digits.npz"])
def test_the_files_are_small(name: str) -> None:
    assert (ROOT / "models" / "digits" / name).stat().st_size < 300_000
