"""`tilewright extract` on the network that comes with the package, through its file and back."""

from pathlib import Path

import numpy as np
import pytest

import toolchain
from toolchain.cli import main
from toolchain.graph.session import open_session, run_session

DIGITS = Path(__file__).resolve().parents[2] / "models" / "digits" / "digits.onnx"


def test_two_parts_are_the_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = tmp_path / "first.onnx", tmp_path / "second.onnx"
    assert main(["extract", str(DIGITS), "--to", "add", "-o", str(first)]) == 0
    assert "takes  image  tensor(float) 1x1x8x8" in capsys.readouterr().out
    assert main(["extract", str(DIGITS), "--from", "add", "-o", str(second)]) == 0
    image = np.random.default_rng(0).normal(size=(1, 1, 8, 8)).astype(np.float32)
    middle = run_session(open_session(first, optimise=False), {"image": image})
    whole = run_session(open_session(DIGITS, optimise=False), {"image": image})
    assert np.array_equal(run_session(open_session(second, optimise=False), middle)["logits"], whole["logits"])


def test_a_part_compiles(tmp_path: Path) -> None:
    assert main(["extract", str(DIGITS), "--from", "add", "-o", str(tmp_path / "part.onnx")]) == 0
    built = toolchain.compile(tmp_path / "part.onnx", "vta", folder=tmp_path)
    assert list(built.load().inputs) == ["add"]


def test_a_mistake_is_one_line_and_leaves_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["extract", str(DIGITS), "--from", "ad", "-o", str(tmp_path / "part.onnx")]) == 1
    assert capsys.readouterr().err == f"{DIGITS}: E0930 the model has no tensor 'ad'; did you mean 'add'?\n"
    assert not list(tmp_path.iterdir())
