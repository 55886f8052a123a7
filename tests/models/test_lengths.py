from pathlib import Path

import numpy as np
import pytest

from tests.lengths_network import encoder, samples
from toolchain.graph.lengths import LengthAxis
from toolchain.models.lengths import length_axes, opened
from toolchain.models.load import load_model
from toolchain.models.model import Model
from toolchain.models.samples import calibrated_by, calibration_samples
from toolchain.spec.errors import UserError


def model(tmp_path: Path, size: int) -> Model:
    return load_model(str(encoder(tmp_path / "m.onnx")), {"sequence": size})


def test_axes_of_a_dimension(tmp_path: Path) -> None:
    assert length_axes(model(tmp_path, 4), ["sequence"]) == (LengthAxis("ids", 1, "sequence"), LengthAxis("mask", 1, "sequence"))
    assert length_axes(model(tmp_path, 4), ["ids.1"]) == (LengthAxis("ids", 1, "ids.1"),)


def test_a_dimension_that_is_not_open(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"E0905 no dimension of the inputs is called 'sequense'; did you mean 'sequence'"):
        length_axes(model(tmp_path, 4), ["sequense"])
    with pytest.raises(UserError, match=r"E0905 .*every dimension has a number already"):
        length_axes(load_model("bert_128"), ["sequence"])


@pytest.mark.parametrize("size", [4, 12, 16, 20])
def test_recorded_samples_are_cut_or_filled_up(size: int, tmp_path: Path) -> None:
    file = samples(tmp_path / "s.npz", 5, 12)
    found = calibration_samples(calibrated_by(opened(model(tmp_path, size), ["sequence"]), file))
    with np.load(file) as arrays:
        for name, array in found.items():
            assert array.shape == (5, 1, size)
            assert np.array_equal(array[..., :12], arrays[name][..., :size])
            assert not array[..., 12:].any()
    if size != 12:
        with pytest.raises(UserError, match="E0808"):
            calibration_samples(calibrated_by(model(tmp_path, size), file))
