"""stcp920 in bf16 computes as in f16, at the same rate, and every tensor is the same bits as in the machine's own arithmetic."""

from pathlib import Path

import numpy as np
import onnx
import pytest

import toolchain
from tests.graph.encoder import encoder
from tests.graph.imported import run
from tests.verify.builds import build
from toolchain.operations.library import kinds_of
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.spec.load import load_machine
from toolchain.verify.kernel_check import check_kernel
from toolchain.verify.ladder import verify_model
from toolchain.verify.reference_sample import SampleSize
from toolchain.verify.verdict import verdict_text

F16, BF16 = "stcp920:f16", "stcp920:bf16"


def test_it_is_told_from_f16_and_times_are_the_same() -> None:
    one, other = load_machine(F16), load_machine(BF16)
    assert one.quantisation is not None
    assert other.quantisation is not None
    assert (one.quantisation.stored, other.quantisation.stored) == ("float16", "bfloat16")
    assert (one.quantisation.bytes, other.quantisation.bytes) == (2, 2)
    assert one.timing.classes == other.timing.classes
    assert {layout.name: str(layout.type) for layout in other.layouts if layout.type}["activations"] == "bf16"
    assert one.tolerance is not None
    assert other.tolerance is not None
    assert (one.tolerance.relative, other.tolerance.relative) == (0.02, 0.1)


def test_digits_are_exact(tmp_path: Path) -> None:
    _, built, samples = build(BF16, "digits", tmp_path)
    verdict = verify_model(built, samples, SampleSize(instructions=4, elements=1, whole=0, seed=0))
    assert verdict.exact, verdict_text(verdict)
    assert all(output.allowed for output in verdict.outputs)


def test_an_encoder_is_exact_and_near_its_file(tmp_path: Path) -> None:
    """Softmax, norms and GELU on the machine; eight significant bits leave three digits of the cosine."""
    onnx.save(encoder(1, 64, 2, 32), tmp_path / "encoder.onnx")
    (tmp_path / "encoder.yaml").write_text("model: {name: encoder, summary: one layer}\nonnx: encoder.onnx\ncalibration: {seeded: 2}\nplace: all\n")
    _, built, samples = build(BF16, str(tmp_path / "encoder.yaml"), tmp_path / "build")
    verdict = verify_model(built, samples, SampleSize(instructions=4, elements=1, whole=0, seed=0))
    assert verdict.exact, verdict_text(verdict)
    (name,) = [entry.name for entry in onnx.load(tmp_path / "encoder.onnx").graph.input]
    x = np.random.default_rng(3).normal(size=(1, 32, 64)).astype(np.float32)
    (wanted,) = run(tmp_path / "encoder.onnx", {name: x}).values()
    found = {}
    for target in (F16, BF16):
        made = toolchain.compile(str(tmp_path / "encoder.yaml"), target, effort=0, folder=tmp_path / "compiled").load().run({name: x})
        (rows,) = made.values()
        found[target] = ((rows * wanted).sum(-1) / np.linalg.norm(rows, axis=-1) / np.linalg.norm(wanted, axis=-1)).min()
    assert found[F16] > found[BF16] > 0.9995


@pytest.mark.parametrize("kernel", ["multiply_halves", "spaced_attention_values", "average_pool"])
def test_kernels_are_right_on_random_operations(kernel: str) -> None:
    machine = load_machine(BF16)
    assert check_kernel(machine, load_kernels(machine)[kernel], kinds_of(machine), 2, seed=1).computed == 2
