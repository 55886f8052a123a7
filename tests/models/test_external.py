"""The file of parameters: where each begins, and its name."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from toolchain.models.external import ALIGNMENT, write_parameters
from toolchain.spec.errors import UserError

VALUES = [("a", np.arange(5, dtype=np.float32)), ("b", np.ones((2, 3), np.float32)), ("c", np.float32([[7]]))]


def test_values_stand_at_aligned_places_under_the_name_of_their_content(tmp_path: Path) -> None:
    path, tensors = write_parameters(tmp_path, iter(VALUES))
    data = path.read_bytes()
    assert path.name == f"weights-{hashlib.sha256(data).hexdigest()[:16]}.bin"
    for tensor, (name, values) in zip(tensors, VALUES, strict=True):
        entry = {item.key: item.value for item in tensor.external_data}
        start = int(entry["offset"])
        assert (tensor.name, tuple(tensor.dims), entry["location"]) == (name, values.shape, path.name)
        assert start % ALIGNMENT == 0
        assert data[start : start + int(entry["length"])] == values.astype("<f4").tobytes()


def test_nothing_stays_of_parameters_that_end_in_an_error(tmp_path: Path) -> None:
    def failing() -> Iterator[tuple[str, np.ndarray]]:
        yield VALUES[0]
        raise KeyError("b")

    with pytest.raises(KeyError):
        write_parameters(tmp_path, failing())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="E0005 cannot write the file"):
        write_parameters(tmp_path / "none", iter(VALUES))
