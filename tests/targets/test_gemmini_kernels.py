"""Gemmini compiles networks: integers scaled in float32, sums in the accumulator, interlocks in place of tokens."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper

from tests.graph.encoder import encoder
from tests.passes.residual_networks import network, sequences
from tests.passes.test_budget import judge
from tests.passes.test_fold import PASSES
from tests.tasks.builds import ROOT
from tests.verify.builds import build
from tests.verify.networks import random_model
from toolchain.graph.importing.load import load_graph
from toolchain.graph.integers.calls import run_reference
from toolchain.graph.integers.functions import kind_of
from toolchain.graph.quantisation.table import calibrate
from toolchain.graph.session import open_session, run_session
from toolchain.operations.library import kinds_of
from toolchain.passes.context import Context, Device
from toolchain.passes.fuse import Fuse
from toolchain.passes.pipeline import run_passes
from toolchain.passes.quantize import Quantize
from toolchain.schedule.form.files import read_schedule_file
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.kernels.problem import state_problem
from toolchain.schedule.tiling.tiles import rank_tilings
from toolchain.spec.load import load_machine
from toolchain.spec.model.quantisation import Numerics
from toolchain.tasks.actions.paths import schedule_file
from toolchain.verify.kernel_check import check_kernel, compare_tiling
from toolchain.verify.ladder import verify_model
from toolchain.verify.random_operation import draw_operation
from toolchain.verify.reference_sample import SampleSize
from toolchain.verify.verdict import ModelVerdict, verdict_text

GEMMINI = load_machine("gemmini")
KERNELS = load_kernels(GEMMINI)
SAMPLE = SampleSize(instructions=6, elements=1, whole=0, seed=0)
LINES = {"gemmini.yaml": 450, "gemmini/kernels.yaml": 250, "gemmini/sequences.yaml": 120, "gemmini/norms.yaml": 90, "gemmini/caches.yaml": 40}


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
    """Attention, norms and GELU in the machine's own arithmetic, which ONNX Runtime spells in standard operators."""
    onnx.save(encoder(heads=1, width=48, rows=16), tmp_path / "encoder.onnx")
    found = verdict(tmp_path / "encoder.onnx", tmp_path / "build")
    assert found.exact, verdict_text(found)
    assert (len(found.regions), found.tensors) == (1, 14)


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


@pytest.mark.parametrize("channels", [16, 80, 512, 528])
@pytest.mark.parametrize("kind", ["layer_norm", "scaled_layer_norm"])
def test_norms_of_rows_that_fill_the_accumulator_or_need_parts_of_a_tile(kind: str, channels: int) -> None:
    """Up to 512 channels a tile has 16 rows, and moves take four blocks; beyond, as many rows as there is room for, and a block a move."""
    rng, fixed = np.random.default_rng(channels), {"rows": 18, "channels": channels, "low": -128, "high": 127}
    operation = next(each for _ in range(20) if (each := draw_operation(GEMMINI, kinds_of(GEMMINI)[kind], rng, fixed)))
    problem = state_problem(GEMMINI, KERNELS[kind], operation)
    for tiling in rank_tilings(problem, 1, 1 << 30)[:2]:
        compare_tiling(problem, tiling, rng)


@pytest.mark.parametrize("smooth", [False, True])
def test_norms_are_those_of_onnx_runtime_with_its_rewriting(smooth: bool, tmp_path: Path) -> None:
    """Which would divide by a deviation in place of multiplying by its inverse: that rounds towards 0 from another number."""
    kinds, samples, numerics = kinds_of(GEMMINI), sequences(12), GEMMINI.quantisation or Numerics()
    computes = frozenset({"linear", "add", "layer_norm", "scaled_layer_norm"})
    base = run_passes(load_graph(network(tmp_path, "alone"), {}), [*PASSES, Fuse()], Context(kinds=kinds))
    context = Context("net.onnx", numerics=numerics, table=calibrate(base, samples), samples=samples, recorded=True, kinds=kinds, policy="all")
    context = replace(context, device=Device("m", lambda _: (), computes=computes), judge=judge(1))
    integer = run_passes(base, [Quantize(smooth=smooth)], context)
    norms = [node.outputs[0] for node in integer.graph if kind_of(node) == ("scaled_layer_norm" if smooth else "layer_norm")]
    assert len(norms) == 3
    integer.graph.outputs.extend(norms)
    session = open_session(ir.to_proto(integer).SerializeToString(), optimise=True)
    for x in sequences(40, 9)["x"]:
        rewritten, reference = run_session(session, {"x": x}), run_reference(integer, {"x": x}, numerics, kinds)
        for value in norms:
            np.testing.assert_array_equal(reference[value.name or ""], rewritten[value.name or ""])


@pytest.mark.parametrize("name", LINES)
def test_the_description_stays_short(name: str) -> None:
    assert len((ROOT / "targets" / name).read_text().splitlines()) <= LINES[name]
