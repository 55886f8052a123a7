"""Gemmini compiles networks: integers scaled in float32, sums in the accumulator, interlocks in place of tokens."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.graph.encoder import encoder
from tests.tasks.builds import ROOT
from tests.verify.builds import build
from tests.verify.networks import random_model
from toolchain.operations.library import kinds_of
from toolchain.schedule.form.files import read_schedule_file
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.spec.load import load_machine
from toolchain.tasks.actions.paths import schedule_file
from toolchain.verify.kernel_check import check_kernel
from toolchain.verify.ladder import verify_model
from toolchain.verify.reference_sample import SampleSize
from toolchain.verify.verdict import ModelVerdict, verdict_text

GEMMINI = load_machine("gemmini")
KERNELS = load_kernels(GEMMINI)
SAMPLE = SampleSize(instructions=6, elements=1, whole=0, seed=0)
LINES = {"gemmini.yaml": 450, "gemmini/kernels.yaml": 250, "gemmini/sequences.yaml": 120, "gemmini/caches.yaml": 40}


def verdict(model: str | Path, folder: Path) -> ModelVerdict:
    _, built, samples = build("gemmini", str(model), folder)
    return verify_model(built, samples, SAMPLE)


@pytest.mark.drawn(4)
@pytest.mark.parametrize("kernel", KERNELS)
def test_random_operations(kernel: str) -> None:
    assert check_kernel(GEMMINI, KERNELS[kernel], kinds_of(GEMMINI), count=1, seed=len(kernel)).computed == 1


def test_digits_is_exact(tmp_path: Path) -> None:
    found = verdict("digits", tmp_path)
    assert found.exact, verdict_text(found)
    assert (found.tensors, len(found.regions)) == (12, 1)


@pytest.mark.parametrize("seed", [1, 4])
def test_random_networks(seed: int, tmp_path: Path) -> None:
    found = verdict(random_model(seed, tmp_path), tmp_path / "build")
    assert found.exact, verdict_text(found)


def test_an_encoder_is_exact(tmp_path: Path) -> None:
    """Attention and GELU in the machine's own arithmetic, which ONNX Runtime spells in standard operators; norms stay on the host."""
    onnx.save(encoder(heads=1, width=48, rows=16), tmp_path / "encoder.onnx")
    found = verdict(tmp_path / "encoder.onnx", tmp_path / "build")
    assert found.exact, verdict_text(found)
    assert (len(found.regions), found.tensors) == (2, 13)


def test_few_queries_at_a_time_leave_room_for_more_keys(tmp_path: Path) -> None:
    """An accumulator of 64 rows holds the scores of 16 queries and 64 keys, or of 10 and 96."""
    onnx.save(encoder(heads=1, width=48, rows=96), tmp_path / "encoder.onnx")
    job, built, samples = build("gemmini", str(tmp_path / "encoder.onnx"), tmp_path / "build", params="ACC_ROWS:64")
    found = verify_model(built, samples, SAMPLE)
    assert found.exact, verdict_text(found)
    kernels = [each for region in built.bundle.manifest.regions for each in read_schedule_file(schedule_file(job, region.name)).entries()]
    (tile,) = (dict(each.tile) for _, each in kernels if each.kernel == "attention_probabilities")
    assert 0 < tile["m"] <= 10


def test_a_padded_pool_of_negative_values_is_no_zero(tmp_path: Path) -> None:
    """The machine counts what lies outside as 0; where all inputs are negative, that would be the maximum."""
    shift = np.full(5, -9, np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["a"]),
        helper.make_node("MaxPool", ["a"], ["y"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    ]
    ends = [helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", [1, 5, 20, 23]), ("y", [1, 5, 10, 12]))]
    constants = [onnx.numpy_helper.from_array(array, name) for name, array in (("w", np.eye(5, dtype=np.float32)[..., None, None]), ("b", shift))]
    model = helper.make_model(helper.make_graph(nodes, "pool", ends[:1], ends[1:], constants), opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, tmp_path / "pool.onnx")
    found = verdict(tmp_path / "pool.onnx", tmp_path / "build")
    assert found.exact, verdict_text(found)
    assert (len(found.regions), found.tensors) == (1, 3)


@pytest.mark.parametrize("name", LINES)
def test_the_description_stays_short(name: str) -> None:
    assert len((ROOT / "targets" / name).read_text().splitlines()) <= LINES[name]
