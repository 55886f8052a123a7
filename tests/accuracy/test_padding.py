"""Networks whose rows do not mix, or are masked, may be filled up with zeros; a sum over all rows may not."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.lengths_network import WIDTH, encoder, rows, samples, total
from toolchain.accuracy.padding import padding_refusal
from toolchain.graph.lengths import LengthAxis
from toolchain.spec.arrays import Array

LENGTHS = [{"n": 4}, {"n": 8}]


def given() -> dict[str, Array]:
    return {"x": np.random.default_rng(0).standard_normal((2, 1, 8, WIDTH)).astype(np.float32)}


@pytest.mark.parametrize(
    ("make", "outputs", "word"),
    [
        (rows, (LengthAxis("y", 1, "n"),), ""),
        (rows, (), "the output 'y' has the shape [1, 8, 32] in place of [1, 4, 32]"),
        (total, (), "the output 'y' changes by "),
    ],
)
def test_by_the_file_itself(make: Callable[[Path], Path], outputs: tuple[LengthAxis, ...], word: str, tmp_path: Path) -> None:
    found = padding_refusal(make(tmp_path / "m.onnx"), (LengthAxis("x", 1, "n"),), outputs, LENGTHS, given())
    assert word in found
    assert bool(word) == bool(found)


def test_a_mask_makes_padding_inert_and_one_that_ignores_it_does_not(tmp_path: Path) -> None:
    file = samples(tmp_path / "s.npz", 4, 8)
    axes, outputs = (LengthAxis("ids", 1, "n"), LengthAxis("mask", 1, "n")), (LengthAxis("words", 1, "n"),)
    with np.load(file) as arrays:
        held = {name: arrays[name] for name in ("ids", "mask")}
    assert padding_refusal(encoder(tmp_path / "m.onnx"), axes, outputs, LENGTHS, held) == ""
    inverted = {"ids": held["ids"], "mask": np.zeros_like(held["mask"])}  # all masked: attention goes to every row alike
    assert "changes by" in padding_refusal(tmp_path / "m.onnx", axes, outputs, LENGTHS, inverted)
