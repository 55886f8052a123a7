"""Made-up parameters of sequences: the same everywhere, and through many layers rows neither grow, fade nor become alike."""

import hashlib
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from tests.models.small import small
from toolchain.models.build import build_model
from toolchain.models.samples import calibration_samples

HEAD = "model: {name: small, summary: a test}\ninputs: {ids: {shape: [1, 48], below: 500}}\n"
BLOCK = """  block:
    takes: [width]
    layers:
      - add: {of: [[], [%s attention: {heads: 4}]]}
      %s
      - add: {of: [[], [%s dense: {out: 4 * width, act: gelu}, dense: {out: width}]]}
      %s
"""
BEFORE, AFTER = BLOCK % ("layernorm,", "", "layernorm,", ""), BLOCK % ("", "- layernorm", "", "- layernorm")


@pytest.mark.parametrize("block", [BEFORE, AFTER], ids=["norms before", "norms after"])
def test_twelve_layers_keep_rows_apart(block: str, tmp_path: Path) -> None:
    layers = "  - embedding: {out: 64}\n  - positions\n  - block: {repeat: 12, width: 64}\n  - layernorm\n"
    model = small(layers, f"blocks:\n{block}", HEAD)
    session = onnxruntime.InferenceSession(str(build_model(model, tmp_path)), providers=["CPUExecutionProvider"])
    ids = calibration_samples(model)["ids"]
    y = np.stack([np.asarray(session.run(None, {"ids": each})[0])[0] for each in ids[:2]])
    assert 0.8 < y.std() < 1.2
    unit = y / np.linalg.norm(y, axis=-1, keepdims=True)
    alike = np.einsum("nrc,nsc->nrs", unit, unit)
    assert (alike.sum((1, 2)) - 48).max() / (48 * 47) < 0.5, "rows of one sample are nearly the same"
    assert np.abs(y[0] - y[1]).mean() > 0.2


def test_the_bytes_are_the_same_on_every_machine(tmp_path: Path) -> None:
    model = small("  - embedding: {out: 16}\n  - layernorm\n  - attention: {heads: 2}\n  - token\n  - dense: {out: 4}\n", head=HEAD)
    build_model(model, tmp_path)
    (weights,) = tmp_path.glob("weights-*.bin")
    assert hashlib.sha256(weights.read_bytes()).hexdigest()[:16] == "78ae729b5a8a6845"


def test_weights_whose_products_share_a_mean_add_nothing(tmp_path: Path) -> None:
    model = small("  - dense: {out: 32}\n", head="model: {name: small, summary: a test}\ninputs: {x: [1, 4, 256]}\n")
    session = onnxruntime.InferenceSession(str(build_model(model, tmp_path)), providers=["CPUExecutionProvider"])
    bias = np.asarray(session.run(None, {"x": np.zeros((1, 4, 256), np.float32)})[0])
    ones = np.asarray(session.run(None, {"x": np.ones((1, 4, 256), np.float32)})[0])
    assert np.abs(ones - bias).max() < 0.12
