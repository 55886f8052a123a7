"""A machine with multipliers, two roundings, zero points and sums of 24 bits computes what the integer network says; so do its relatives."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.ratio_machines import RATIO, Change, changed, factor, sums_of
from tests.target_runs import execute, read
from tests.verify.builds import build
from tests.verify.networks import random_model
from toolchain.graph.integers.calls import SCALE, ZERO
from toolchain.operations.ending import Scaling, requantised
from toolchain.operations.library import kinds_of
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine
from toolchain.verify.kernel_check import check_kernel
from toolchain.verify.ladder import verify_model
from toolchain.verify.reference_sample import SampleSize
from toolchain.verify.verdict import ModelVerdict, verdict_text

F = np.float32
SAMPLE = SampleSize(instructions=6, elements=1, whole=0, seed=0)


def verdict(machine: str | Path, model: str | Path, folder: Path) -> ModelVerdict:
    _, built, samples = build(str(machine), str(model), folder)
    return verify_model(built, samples, SAMPLE)


def test_digits_is_exact_and_nearer_than_shifts_bring_it(tmp_path: Path) -> None:
    found, shifted = (verdict(machine, "digits", tmp_path / f"b{k}") for k, machine in enumerate((RATIO, "vta")))
    assert found.exact, verdict_text(found)
    assert (found.tensors, len(found.regions)) == (12, 1)
    multiplied, only_shifted = (each.closeness.outputs["logits"].sqnr or 0.0 for each in (found, shifted))
    assert multiplied > only_shifted + 1


def test_digits_with_scales_in_float32(tmp_path: Path) -> None:
    found = verdict(factor(tmp_path / "machine"), "digits", tmp_path / "build")
    assert found.exact, verdict_text(found)
    assert found.tensors == 12


ONCE: tuple[Change, ...] = (
    ("", "per_channel: true", "per_channel: false"),
    ("", "  first_rounding: {shift: 31, rounding: half_up}\n", ""),
    ("", "rounding: half_away", "rounding: half_even"),
    ("", "round_half_up(p[o], min(vectors[vector + rows + r][o] & 63, 31))", "round_half_even(p[o], min(vectors[vector + rows + r][o] & 63, 62))"),
    ("", "t[o]: i64 = round_half_away(h[o], max((vectors[vector + rows + r][o] & 63) - 31, 0)) + zero", "t[o]: i64 = h[o] + zero"),
)  # fmt: skip


def test_digits_with_one_multiplier_for_a_tensor_and_one_rounding(tmp_path: Path) -> None:
    found = verdict(changed(tmp_path / "machine", ONCE), "digits", tmp_path / "build")
    assert found.exact, verdict_text(found)
    assert found.tensors == 12


@pytest.mark.parametrize("bits", [pytest.param(20, marks=pytest.mark.nightly), 16])
def test_narrower_sums_cost_accuracy_and_never_exactness(bits: int, tmp_path: Path) -> None:
    found = verdict(sums_of(tmp_path / "machine", bits), "digits", tmp_path / "build")
    assert found.exact, verdict_text(found)
    assert found.tensors == 12


def test_sums_that_are_narrower_than_the_section_says_are_noticed(tmp_path: Path) -> None:
    machine = changed(tmp_path / "machine", [("", "wrap(s[o], i24)", "wrap(s[o], i16)")])
    assert not verdict(machine, "digits", tmp_path / "build").exact


@pytest.mark.drawn(1)
@pytest.mark.parametrize(("name", "seed"), [("ratio", 0), ("ratio", 1), ("ratio", 3), ("factor", 2)])
def test_random_networks(name: str, seed: int, tmp_path: Path) -> None:
    """Layers of every kind, and graphs with outputs inside, sums of any two tensors and concatenations."""
    path = random_model(seed, tmp_path)
    found = verdict(RATIO if name == "ratio" else factor(tmp_path / "machine"), path, tmp_path / "build")
    assert found.exact, verdict_text(found)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("kernel", load_kernels(load_machine(str(RATIO))))
def test_every_kernel_is_exact(kernel: str, tmp_path: Path) -> None:
    for path in (RATIO, factor(tmp_path)):
        machine = load_machine(str(path))
        assert check_kernel(machine, load_kernels(machine)[kernel], kinds_of(machine), 1).computed == 1


MISTAKES: Mapping[str, tuple[str, Change]] = {
    "no zero point where there is padding": ("conv2d", ("conv.asm.j2", "zero_x if padded else 0", "0")),
    "a plain bias for stored bytes": ("conv2d", ("kernels.yaml", "bias[c] if padded else folded[c]", "bias[c]")),
    "a folded bias and the zero point as well": ("conv2d", ("kernels.yaml", "bias[c] if padded else folded[c]", "folded[c]")),
    "the biases as multipliers": ("conv2d", ("store.asm.j2", "v_slot + oc", "v_slot")),
    "one shift for all channels": ("conv2d", ("kernels.yaml", "shifts[c] if r == 2", "shifts[0] if r == 2")),
    "a result with a zero next to its own": ("conv2d", ("store.asm.j2", "zero_y", "(zero_y + 1) % 256")),
    "the zero points of both summands the other way round": (
        "add",
        ("add.asm.j2", "0, zero_x), (z_slot, 3, zero_z)", "0, zero_z), (z_slot, 3, zero_x)"),
    ),
    "an average of stored bytes": ("average_pool", ("average.asm.j2", "zero_x", "zero_x * 0")),
    "a maximum with a zero point": ("max_pool", ("kernels.yaml", "zero_y: 0, low", "zero_y: 3, low")),
    "a high half of 30 bits": ("conv2d", ("", "round_half_up(p[o], min(", "round_half_up(p[o], 30 if vectors[vector + rows + r][o] > 30 else min(")),
    "the first rounding left out": ("conv2d", ("", "h[o]: i64 = round_half_up(", "h[o]: i64 = round_floor(")),
}


@pytest.mark.drawn(4)
@pytest.mark.parametrize("case", MISTAKES)
def test_a_planted_mistake_is_found(case: str, tmp_path: Path) -> None:
    kernel, change = MISTAKES[case]
    machine = load_machine(str(changed(tmp_path, [change])))
    with pytest.raises(UserError, match=f"E1305 kernel '{kernel}' makes"):
        check_kernel(machine, load_kernels(machine)[kernel], kinds_of(machine), 80 if kernel == "conv2d" else 8)


SUMS, RESULT = 4096, 16384
"""Bytes in memory."""


@pytest.mark.parametrize("name", ["ratio", "factor"])
def test_the_store_rounds_as_the_reference_does(name: str, tmp_path: Path) -> None:
    """Every engine on sums of all sizes, ties among them: 40 pixels whose sums are biases."""
    machine = load_machine(str(RATIO if name == "ratio" else factor(tmp_path)))
    numerics, rng = machine.quantisation, np.random.default_rng(5)
    assert numerics is not None
    most = numerics.accumulator.high
    total = (rng.integers(-most, most + 1, (40, 16)) >> rng.integers(0, 24, (40, 16))).astype(np.int32)
    total[:2], total[2:4] = most, -most
    if name == "ratio":
        parts = rng.integers(1 << 30, 1 << 31, 16, dtype=np.int64), rng.integers(28, 50, 16)
        parts[0][:4], parts[1][:4] = 1 << 30, [31, 32, 33, 38]  # halves after either rounding
        vectors, scaling = np.stack(parts).astype(np.int32), Scaling(*parts)
    else:
        scales = np.ldexp(rng.random(16) + 0.5, -rng.integers(0, 26, 16)).astype(F)
        scales[:4] = [0.5, 0.25, 2.0**-17, 1.5]
        vectors, scaling = np.stack([scales.view(np.int32), np.zeros(16, np.int32)]), Scaling(scales)
    text = f"LOAD memory=vectors place=0 length=42 address={SUMS // 64} post=compute\n"
    for k in range(40):
        first, last = "wait=load " if not k else "", "post=store " if k == 39 else ""
        text += f"WINDOW {first}{last}operation=product start=1 blocks=0 source=0 height=1 width=1 vector={k} target={k} out_height=1 out_width=1\n"
    text += f"STORE wait=compute place=0 length=40 vector=40 address={RESULT // 16} zero=131 low=2 high=253\nEND"
    state = execute(machine, text, {"dram": {SUMS: np.concatenate([total, vectors])}})
    wanted = requantised(total.astype(np.int64), scaling, False, {"low": 2, "high": 253, "zero_y": 131}, numerics)
    np.testing.assert_array_equal(read(state, "dram", RESULT, (40, 16), np.uint8), wanted)
    assert len(np.unique(wanted)) > 60


def test_a_dense_layer_of_many_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    arrays = {"w": rng.normal(0, 0.2, (24, 40)).astype(F), "b": rng.normal(0, 1, 40).astype(F)}
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", [7, 24]), ("y", [7, 40]))]
    constants = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph([helper.make_node("Gemm", ["x", "w", "b"], ["y"], "rows")], "rows", ends[:1], ends[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "rows.onnx")
    found = verdict(RATIO, tmp_path / "rows.onnx", tmp_path / "build")
    assert found.exact, verdict_text(found)
    assert found.tensors == 2


def test_a_quantised_models_own_scales_and_zeros_are_kept(tmp_path: Path) -> None:
    """uint8 with a zero in the middle of nowhere, and the one of a ReLU."""
    n, rng = helper.make_node, np.random.default_rng(2)
    steps = {"x": (F(0.043), np.uint8(77)), "c": (F(0.0171), np.uint8(0)), "y": (F(0.0913), np.uint8(201))}
    constants = {"w1": rng.normal(0, 0.3, (8, 3, 3, 3)).astype(F), "w2": rng.normal(0, 0.3, (5, 8, 1, 1)).astype(F)}
    constants |= {f"{name}.s": np.asarray(scale) for name, (scale, _) in steps.items()} | {
        f"{name}.z": np.asarray(zero) for name, (_, zero) in steps.items()
    }

    def pair(name: str, result: str) -> list[onnx.NodeProto]:
        given = [f"{name}.s", f"{name}.z"]
        return [n("QuantizeLinear", [name, *given], [f"{name}.q"]), n("DequantizeLinear", [f"{name}.q", *given], [result])]

    nodes = [*pair("x", "x1"), n("Conv", ["x1", "w1"], ["c"], "one", pads=[1, 1, 1, 1]), *pair("c", "c1"), n("Conv", ["c1", "w2"], ["y"], "two")]
    nodes += pair("y", "out")
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", [1, 3, 9, 9]), ("out", [1, 5, 9, 9]))]
    graph = helper.make_graph(nodes, "own", ends[:1], ends[1:], [numpy_helper.from_array(array, name) for name, array in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "own.onnx")
    _, built, samples = build(str(RATIO), str(tmp_path / "own.onnx"), tmp_path / "build")
    stored = [value.metadata_props for node in built.integer.graph for value in node.outputs if SCALE in value.metadata_props]
    assert [(F(float.fromhex(marks[SCALE])), int(marks[ZERO])) for marks in stored] == [(scale, int(zero)) for scale, zero in steps.values()]
    assert verify_model(built, samples, SAMPLE).exact
