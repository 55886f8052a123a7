"""Instructions of STCP920 for sequences of bytes against direct numpy, and layers of attention, norms and products of two sequences as a whole."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.passes.residual_networks import network, sequences
from tests.target_runs import Array, execute, half_even, random_int8, read
from tests.verify.builds import build
from toolchain.graph.integers.calls import BOUNDARY
from toolchain.graph.integers.functions import is_integer, kind_of
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine
from toolchain.verify.ladder import verify_model
from toolchain.verify.reference_sample import SampleSize
from toolchain.verify.verdict import verdict_text

LINE = 32
SAMPLE = SampleSize(instructions=6, elements=1, whole=0, seed=1)


@cache
def machine() -> Machine:
    return load_machine("stcp920", "paper", {"LOG_DDR": "20", "LOG_LLB": "16", "CLUSTERS": "1", "CORES": "1"})


def single(x: Array) -> np.ndarray:
    return x.astype(np.float32)


def normed(name: str, x: Array, blocks: Sequence[Array], centred: int, small: int) -> Array:
    """Three rows of 64 channels by one instruction. blocks: its parameters, for each 32 channels."""
    given = np.concatenate(blocks)
    text = f"""
        LOAD space=ddr local=0 remote=0 width=6
        LOAD space=ddr local=100 remote=64 width={given.size // LINE} post=1000
        {name} wait=0001 source=0 source_row=2 source_pixel=2 target=0 target_row=2 target_pixel=2 rows=3 groups=2 channels=64 params=100 \
centred={centred} small={small} post=0001
        STORE wait=1000 space=ddr local=0 remote=128 width=6
        END
    """
    state = execute(machine(), text, {"ddr": {0: x.astype(np.int8), 64 * LINE: given}})
    return read(state, "ddr", 128 * LINE, (3, 64))


@pytest.mark.parametrize("small", [0, 40_000_000])
@pytest.mark.parametrize("centred", [1, 0])
def test_norms_in_place(centred: int, small: int) -> None:
    """Three rows of 64 channels: whole numbers up to the quotient, which float32 holds."""
    x, weights, rng = random_int8(1, 3, 64), random_int8(2, 64), np.random.default_rng(3)
    bias, scale, shift = rng.integers(-(1 << 18), 1 << 18, 64), rng.integers(1, 1 << 16, 64), rng.integers(24, 28, 64)
    apart = x * 64 - centred * x.sum(-1, keepdims=True)
    spread = np.maximum((apart * apart).sum(-1, keepdims=True) // 64 + small, 1)
    normal = np.rint(single(apart) * (np.float32(1024) / np.sqrt(single(spread)))).astype(np.int64)
    expected = np.clip(half_even((normal * weights + bias) * scale, shift), -128, 127)
    blocks = [
        np.concatenate([part.view(np.int8) for part in (b.astype("<i4"), s.astype("<u2"), n.astype("u1"), w.astype(np.int8))])
        for b, s, n, w in zip(*(each.reshape(2, 32) for each in (bias, scale, shift, weights)), strict=True)
    ]
    np.testing.assert_array_equal(normed("NORM", x, blocks, centred, small), expected)


@pytest.mark.parametrize("small", [0, 40_000])
@pytest.mark.parametrize("centred", [1, 0])
def test_norms_of_channels_with_factors(centred: int, small: int) -> None:
    """As above, each channel times a number up to 127 first; squares are of 64ths."""
    x, weights, rng = random_int8(1, 3, 64), random_int8(2, 64), np.random.default_rng(3)
    bias, scale, shift = rng.integers(-(1 << 18), 1 << 18, 64), rng.integers(1, 1 << 16, 64), rng.integers(24, 28, 64)
    factor = rng.integers(1, 128, 64)
    apart = x * factor * 64 - centred * (x * factor).sum(-1, keepdims=True)
    spread = np.maximum(((apart >> 6) ** 2).sum(-1, keepdims=True) // 64 + small, 1)
    normal = np.rint(single(apart) * (np.float32(16) / np.sqrt(single(spread)))).astype(np.int64)
    expected = np.clip(half_even((normal * weights + bias) * scale, shift), -128, 127)
    parts = (bias.astype("<i4"), scale.astype("<u2"), shift.astype("u1"), weights.astype(np.int8), factor.astype("u1"))
    blocks = [np.concatenate([part.reshape(2, 32)[number].view(np.int8) for part in parts]) for number in range(2)]
    np.testing.assert_array_equal(normed("SNORM", x, blocks, centred, small), expected)


def powers(below: Array) -> Array:
    near = 1999 - below % 1024
    return near * near + 2094201 >> np.minimum(below // 1024, 31)


@pytest.mark.parametrize(("keys", "masks"), [(64, 0), (37, 0), (33, 1), (64, 3), (5, 1)])
def test_softmax_of_accumulators(keys: int, masks: int) -> None:
    """Three queries and up to 64 keys of 32 channels; no mask, one for all queries, or one for each."""
    q, k, rng, rate = random_int8(4, 3, 32), random_int8(5, 64, 32), np.random.default_rng(6), 41_000
    mask = np.where(rng.random((max(masks, 1), 64)) < 0.4, -128, 0) * (masks > 0)
    score = ((q @ k.T) * rate >> 16) + mask * 65536
    below = score[:, :keys].max(-1, keepdims=True) - score
    power = np.where(np.arange(64) < keys, powers(np.maximum(below, 0)), 0)
    share = np.rint(single(power) * (np.float32(32768) / single(power.sum(-1, keepdims=True)))).astype(np.int64)
    expected = np.clip(half_even(share * 17_000, 22), -128, 127)
    masked = f"masked=1 mask=200 mask_row={2 if masks > 1 else 0}" if masks else ""
    text = f"""
        LOAD space=ddr local=0 remote=0 width=3
        LOAD space=ddr local=200 remote=160 width=6
        LOAD space=ddr local=64 remote=64 width=64 post=0010
        MMA wait=0001 source=0 source_row=1 rows=3 width=1 in_rows=3 in_width=1 acc=5 weight=64
        MMA source=0 source_row=1 rows=3 width=1 in_rows=3 in_width=1 acc=8 weight=96 post=0100
        SOFTMAX wait=0010 acc=5 rows=3 groups=2 channels={keys} rate={rate} target=300 target_row=2 multiplier=17000 shift=22 {masked} post=0001
        STORE wait=0100 space=ddr local=300 remote=256 width=6
        END
    """
    images = {0: q.astype(np.int8), 64 * LINE: k.astype(np.int8), 160 * LINE: mask.astype(np.int8)}
    np.testing.assert_array_equal(read(execute(machine(), text, {"ddr": images}), "ddr", 256 * LINE, (3, 64)), expected)


@pytest.mark.parametrize("space", ["llb", "ddr"])
def test_a_transposing_load_fills_up_with_zeros(space: str) -> None:
    """Of 64 rows the first 51 exist."""
    x = random_int8(7, 64, 32)
    text = f"""
        FETCH llb_line=0 ddr_line=0 lines=64
        LOADT space={space} local=8 remote=0 rows=2 remote_row=32 local_row=32 columns=51
        STORE space=ddr local=8 remote=128 width=64
        END
    """
    found = read(execute(machine(), text, {"ddr": {0: x.astype(np.int8)}}), "ddr", 128 * LINE, (2, 32, 32))
    there = np.where(np.arange(64)[:, None] < 51, x, 0)
    np.testing.assert_array_equal(found, there.reshape(2, 32, 32).transpose(0, 2, 1))


ENCODER = """
model: {name: encoder, summary: one layer of attention}
inputs:
  tokens: {shape: [1, TOKENS], below: 50}
defaults:
  layernorm: {epsilon: 1.0e-12}
layers:
  - embedding: {out: 64}
  - layernorm
  - add: {of: [[], [attention: {heads: 2, causal: CAUSAL}]]}
  - layernorm
  - add: {of: [[], [dense: {out: 48, act: gelu}, dense: {out: 64}]]}
  - layernorm
  - dense: {name: spans, out: 2}
"""


@pytest.mark.drawn(1)
@pytest.mark.parametrize(
    ("tokens", "causal", "more"),
    [(32, False, {}), (21, True, {"streams": "2"}), (32, False, {"images": "2"}), (21, False, {"batch": "2"})],
    ids=["one core", "keys in part and seen in turn on two", "an image each", "two images"],
)
def test_a_layer_of_an_encoder_stands_on_the_machine_as_a_whole(tokens: int, causal: bool, more: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "encoder.yaml").write_text(ENCODER.replace("TOKENS", str(tokens)).replace("CAUSAL", str(causal).lower()))
    _, built, samples = build("stcp920", str(tmp_path / "encoder.yaml"), tmp_path / "build", effort="0", **more)
    found = verify_model(built, samples, SAMPLE)
    assert found.exact, verdict_text(found)
    assert len(found.regions) == 1
    kinds = {kind_of(node) for node in built.integer.graph if is_integer(node)}
    shares = "spaced_masked_attention_probabilities" if causal else "spaced_attention_probabilities"
    assert kinds >= {"layer_norm", shares, "spaced_attention_values", "gelu", "linear", "add"}
    assert {node.op_type for node in built.integer.graph if not node.domain} == {"Gather", *(["Where"] if causal else [])}
    assert (found.closeness.outputs["spans"].sqnr or 0.0) > 20


RECORDED = """
model: {name: residual, summary: norms around sums with a large channel}
onnx: net.onnx
calibration: {file: samples.npz, array: x}
accuracy: {loss: 1}
"""


@pytest.mark.parametrize("form", ["post", "pre"])
def test_divided_streams_are_exact(form: str, tmp_path: Path) -> None:
    network(tmp_path, form)
    np.savez(tmp_path / "samples.npz", x=sequences(12)["x"][:, 0])
    (tmp_path / "residual.yaml").write_text(RECORDED)
    _, built, samples = build("stcp920", str(tmp_path / "residual.yaml"), tmp_path / "build", effort="0")
    found = verify_model(built, samples, SAMPLE)
    assert found.exact, verdict_text(found)
    kinds = {kind_of(node) for node in built.integer.graph if is_integer(node)}
    assert kinds >= {"scaled_layer_norm", "linear", "add"}
    assert (found.closeness.outputs["y"].sqnr or 0.0) > 20


def test_a_product_of_two_sequences_and_a_norm_by_roots(tmp_path: Path) -> None:
    """y = relu(x * weight / rms(x) @ z), with 43 channels that are no whole blocks in z."""
    weight = np.linspace(0.5, 1.5, 96).astype(np.float32)
    constants = {"weight": weight, "two": np.array(2, np.float32), "last": np.array([-1], np.int64), "small": np.array(1e-5, np.float32)}
    nodes = [
        helper.make_node("Pow", ["x", "two"], ["square"]),
        helper.make_node("ReduceMean", ["square", "last"], ["mean"]),
        helper.make_node("Add", ["mean", "small"], ["more"]),
        helper.make_node("Sqrt", ["more"], ["root"]),
        helper.make_node("Div", ["x", "root"], ["normal"]),
        helper.make_node("Mul", ["normal", "weight"], ["a"]),
        helper.make_node("MatMul", ["a", "z"], ["b"]),
        helper.make_node("Relu", ["b"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", [1, 70, 96]), ("z", [1, 96, 43]), ("y", [1, 70, 43]))]
    held = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "product", ends[:2], ends[2:], held)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), tmp_path / "product.onnx")
    _, built, samples = build("stcp920", str(tmp_path / "product.onnx"), tmp_path / "build", effort="0")
    found = verify_model(built, samples, SAMPLE)
    assert found.exact, verdict_text(found)
    assert len(found.regions) == 1
    kinds = [kind_of(node) for node in built.integer.graph if is_integer(node)]
    assert [kind for kind in kinds if kind not in BOUNDARY] == ["rms_norm", "matmul"]
