"""A model that its first inputs calibrate: floating point until then, afterwards the same build as with these samples given."""

import threading
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import toolchain
from tests.api.test_compile import absolute, model
from toolchain.models.load import load_model
from toolchain.models.samples import calibration_samples
from toolchain.spec.errors import UserError


def _pictures(count: int) -> "np.typing.NDArray[np.float32]":
    return calibration_samples(load_model("digits"))["image"][:count].astype(np.float32)


def test_the_first_inputs_calibrate_it(tmp_path: Path) -> None:
    used = toolchain.calibrate_in_use("digits", "vta", samples=6, place="all", folder=tmp_path / "use")
    pictures = _pictures(10)
    first = used.run({"image": pictures[:4, 0]})
    assert used.compiled is None
    later = used.run({"image": pictures[4:, 0]})  # more than are needed
    assert used.compiled is not None
    assert used.compiled.calibration == "recorded"
    given = toolchain.compile("digits", "vta", place="all", calibration={"image": pictures[:6]}, folder=tmp_path / "given")
    assert used.compiled.bundle.read_bytes() == given.bundle.read_bytes()
    integers, floats = given.load().run({"image": pictures[:, 0]})["logits"], np.concatenate([first["logits"], later["logits"]])
    assert not np.array_equal(floats, integers)
    assert np.allclose(floats, integers, atol=2)
    assert np.array_equal(used.run({"image": pictures[:, 0]})["logits"], integers)


def test_threads_share_it(tmp_path: Path) -> None:
    """Each gets its own answer, whoever brings the last sample."""
    used = toolchain.calibrate_in_use(absolute(), "vta", samples=8, folder=tmp_path)
    found: dict[int, np.typing.NDArray[np.float32]] = {}

    def work(number: int) -> None:
        found[number] = used.run({"x": np.full((2, 3), -number, np.float32)})["y"]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(found[number], np.full((2, 3), number)) for number in range(6))
    assert used.compiled is not None


def test_samples_that_cannot_be_told_apart(tmp_path: Path) -> None:
    scalar = model({"x": (TensorProto.FLOAT, [])}, [helper.make_node("Abs", ["x"], ["y"])], {"y": TensorProto.FLOAT})
    with pytest.raises(UserError, match="E0808 the input 'x' has no fixed number of rows in a sample"):
        toolchain.calibrate_in_use(scalar, "vta", folder=tmp_path)
    with pytest.raises(UserError, match="E0808 0 samples calibrate nothing"):
        toolchain.calibrate_in_use(absolute(), "vta", samples=0, folder=tmp_path)
