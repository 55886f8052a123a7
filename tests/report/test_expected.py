"""Results beside those that a file expects."""

import math
from pathlib import Path

import numpy as np
import pytest

from toolchain.report.expected import expected_lines
from toolchain.spec.arrays import Array
from toolchain.spec.errors import UserError

SCORES = np.array([[0.0, 3.0], [2.0, 1.0], [5.0, 4.0]], np.float32)
OUTPUTS: dict[str, Array] = {"scores": SCORES, "count": np.arange(3)}


def lines(path: Path, **arrays: Array) -> list[str]:
    np.savez(path / "e.npz", **arrays)
    return list(expected_lines(OUTPUTS, path / "e.npz"))


def test_equal_results_say_so_and_an_undefined_number_is_like_another(tmp_path: Path) -> None:
    assert lines(tmp_path, count=np.arange(3), scores=SCORES) == ["scores: all 6 elements as expected", "count: all 3 elements as expected"]
    np.savez(tmp_path / "n.npz", y=np.array([math.nan, 1.0]))
    assert list(expected_lines({"y": np.array([math.nan, 1.0])}, tmp_path / "n.npz")) == ["y: all 2 elements as expected"]


def test_others_say_how_far_they_are(tmp_path: Path) -> None:
    """A signal of 100 and an error of 1 in energy are 20 dB apart; a single part is the whole."""
    np.savez(tmp_path / "e.npz", y=np.array([[10.0]]))
    assert list(expected_lines({"y": np.array([[9.0]])}, tmp_path / "e.npz")) == [
        "y: 0 of 1 element as expected, the furthest off by 1, its worst part 20.0 dB"
    ]
    (told,) = lines(tmp_path, count=np.array([0, 1, 9]))
    assert told.startswith("count: 2 of 3 elements as expected, the furthest off by 7")


def test_labels_are_counted_by_the_first_output(tmp_path: Path) -> None:
    assert lines(tmp_path, labels=np.array([1, 0, 1])) == ["labels: 66.67 % of 3 samples right by scores"]


@pytest.mark.parametrize(
    ("arrays", "error"),
    [
        ({"x": SCORES}, "E0808 the file has neither an array of an output's name nor 'labels'; outputs: scores, count"),
        ({"scores": SCORES[:2]}, r"E0808 'scores' is float32\[2, 2\], the results are float32\[3, 2\]"),
        ({"count": np.array(["a", "b", "c"])}, "E0808 'count' is <U1"),
        ({"labels": np.array([1, 0])}, "E0808 'labels' is not one whole number for each of 3 samples"),
        ({"labels": np.array([1.0, 0.0, 1.0])}, "E0808 'labels' is not one whole number"),
    ],
)
def test_arrays_that_do_not_fit(arrays: dict[str, Array], error: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=error):
        lines(tmp_path, **arrays)


def test_a_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "e.npz").write_bytes(b"PK nothing")
    with pytest.raises(UserError, match=r"E0808 .*e.npz is not an .npz file of plain arrays"):
        list(expected_lines(OUTPUTS, tmp_path / "e.npz"))
