"""A network in halves is exact to the bit against its machine's own arithmetic; another order of its sums is found out."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from tests.graph.llama import Shape, llama
from tests.verify.builds import build
from tests.verify.networks import network
from toolchain.graph.integers.functions import is_integer, kind_of
from toolchain.operations.library import kinds_of
from toolchain.spec.errors import UserError
from toolchain.spec.model.quantisation import Floats
from toolchain.verify.compare import differing_bits, first_samples, oracle_tensors
from toolchain.verify.declared import declared_tensors
from toolchain.verify.ladder import verify_model
from toolchain.verify.reference_sample import SampleSize
from toolchain.verify.verdict import verdict_text

TARGET = "stcp920:f16"


@pytest.mark.parametrize("seed", range(3))
def test_random_networks_climb_the_ladder(seed: int, tmp_path: Path) -> None:
    (tmp_path / "random.yaml").write_text(network(seed))
    _, built, samples = build(TARGET, str(tmp_path / "random.yaml"), tmp_path / "build")
    verdict = verify_model(built, samples, SampleSize(instructions=6, elements=1, whole=0, seed=seed))
    told = verdict_text(verdict)
    assert verdict.exact, told
    assert verdict.tensors > 4
    assert "compared with the machine's own arithmetic" in told
    assert "dB near or nearer" in told
    assert all(output.allowed for output in verdict.outputs)


def test_another_order_makes_other_bits_that_are_as_near(tmp_path: Path) -> None:
    _, built, samples = build(TARGET, "digits", tmp_path)
    (machine,) = built.machines.values()
    numerics = machine.quantisation
    assert numerics is not None
    expected = oracle_tensors(built.integer, first_samples(samples, 2))
    names = [name for name in expected if name.endswith(".float16")]
    ways, said = (numerics, replace(numerics, floats=Floats())), list[str]()
    one, other = (declared_tensors(built.integer, names, expected, way, kinds_of(machine), said.append) for way in ways)
    assert said[10:12] == ["tensor 11 of 11 in the machine's own arithmetic", "tensor 1 of 11 in the machine's own arithmetic"]
    assert sum(differing_bits(one.tensors[name], other.tensors[name]) for name in names)
    assert min(one.decibels, other.decibels) > 60
    assert one.furthest in names


def test_a_file_says_how_far_halves_may_be(tmp_path: Path) -> None:
    text = (Path(__file__).resolve().parents[2] / "targets" / "stcp920.yaml").read_text()
    file = tmp_path / "chip.yaml"
    file.write_text("\n".join(line for line in text.splitlines() if not line.startswith("tolerance:")))
    with pytest.raises(UserError, match="E0109 missing key 'tolerance'"):
        build(f"{file}:f16", "digits", tmp_path / "build")


ENCODER = """
model: {name: encoder, summary: one layer of attention}
inputs:
  tokens: {shape: [1, TOKENS], below: 50}
defaults:
  layernorm: {epsilon: 1.0e-12}
layers:
  - embedding: {out: 128}
  - layernorm
  - add: {of: [[], [attention: {heads: 4, causal: CAUSAL}]]}
  - layernorm
  - add: {of: [[], [dense: {out: 96, act: gelu}, dense: {out: 128}]]}
  - layernorm
  - dense: {name: spans, out: 2}
"""


@pytest.mark.parametrize(
    ("tokens", "causal", "more"),
    [(64, False, {}), (64, False, {"streams": "2"}), (43, True, {"streams": "2"}), (64, False, {"images": "2"}), (43, True, {"batch": "2"})],
    ids=["one core", "one image on two", "keys in part and seen in turn on two", "an image each", "two images with one mask each"],
)
def test_a_layer_of_an_encoder_stands_on_the_machine_as_a_whole(tokens: int, causal: bool, more: dict[str, str], tmp_path: Path) -> None:
    """Layer norms, scores, softmax, values and GELU in halves: the host has the embedding alone. Two cores deal a group's tiles among them, and
    tensors on chip are read from both."""
    (tmp_path / "encoder.yaml").write_text(ENCODER.replace("TOKENS", str(tokens)).replace("CAUSAL", str(causal).lower()))
    _, built, samples = build(TARGET, str(tmp_path / "encoder.yaml"), tmp_path / "build", effort="0", **more)
    verdict = verify_model(built, samples, SampleSize(instructions=6, elements=1, whole=0, seed=1))
    told = verdict_text(verdict)
    assert verdict.exact, told
    assert len(verdict.regions) == 1
    assert all(output.allowed for output in verdict.outputs)
    kinds = {kind_of(node) for node in built.integer.graph if is_integer(node)}
    shares = "spaced_masked_attention_probabilities" if causal else "spaced_attention_probabilities"
    assert kinds >= {"layer_norm", shares, "spaced_attention_values", "gelu", "linear", "add"}
    assert {node.op_type for node in built.integer.graph if not node.domain} == {"Gather", *(["Where"] if causal else [])}


DECODERS: list[tuple[Shape, dict[str, str]]] = [
    (Shape(rows=40), {"streams": "2"}),
    (Shape(rows=9, inner=64, heads=2, shared=1, turned=32), {"batch": "2"}),
    (Shape(rows=9, shared=4, interleaved=True, computed=True), {}),
]


@pytest.mark.parametrize(("shape", "more"), DECODERS, ids=["two queries to a key", "half of a head", "neighbours by positions"])
def test_a_layer_of_todays_decoders_stands_on_the_machine_as_a_whole(shape: Shape, more: dict[str, str], tmp_path: Path) -> None:
    """Norms by roots, rotary positions, attention with a key for several queries and a gated layer: the host has tables and masks alone."""
    onnx.save(llama(shape), tmp_path / "llama.onnx")
    text = f"model: {{name: llama, summary: a layer}}\nonnx: llama.onnx\ncalibration: {{seeded: 4}}\nplace: {'pays' if 'batch' in more else 'all'}\n"
    (tmp_path / "llama.yaml").write_text(text + (f"inputs: {{positions: {{shape: [1, {shape.rows}], below: 900}}}}\n" if shape.computed else ""))
    _, built, samples = build(TARGET, str(tmp_path / "llama.yaml"), tmp_path / "build", effort="0", **more)
    verdict = verify_model(built, samples, SampleSize(instructions=6, elements=1, whole=0, seed=1))
    told = verdict_text(verdict)
    assert verdict.exact, told
    assert len(verdict.regions) == 1
    assert all(output.allowed for output in verdict.outputs)
    kinds = [kind_of(node) for node in built.integer.graph if is_integer(node)]
    assert {"rms_norm", "spaced_masked_attention_probabilities", "spaced_attention_values", "sigmoid", "multiply", "linear", "add"} < {*kinds}
    assert kinds.count("rotary") == 2
    assert {node.op_type for node in built.integer.graph if not node.domain} <= {
        "Where",
        "Reshape",
        "Cast",
        "Unsqueeze",
        "Mul",
        "Concat",
        "Cos",
        "Sin",
    }


STANDARD = """
<ir_version: 10, opset_import: ["": 23]>
decoder (float[1, 12, 128] x, int64[1, 12] places) => (float[1, 12, 128] y) {
  n = RMSNormalization <axis = -1, epsilon = 1e-5> (x, scale)
  q = MatMul (n, wq)
  k = MatMul (n, wk)
  v = MatMul (n, wv)
  turned_q = RotaryEmbedding <num_heads = 4> (q, cos, sin, places)
  turned_k = RotaryEmbedding <num_heads = 2> (k, cos, sin, places)
  a = Attention <q_num_heads = 4, kv_num_heads = 2, is_causal = 1> (turned_q, turned_k, v)
  o = MatMul (a, wo)
  y = Add (x, o)
}
"""
FUSED = """
<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
decoder (float[1, 12, 128] x) => (float[1, 12, 128] y, float[1, 2, 12, 32] keys, float[1, 2, 12, 32] values) {
  n = SimplifiedLayerNormalization <axis = -1, epsilon = 1e-5> (x, scale)
  q = MatMul (n, wq)
  k = MatMul (n, wk)
  v = MatMul (n, wv)
  a, keys, values = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2, do_rotary = 1> (q, k, v, , , last, count, cos, sin)
  o = MatMul (a, wo)
  y = com.microsoft.SkipSimplifiedLayerNormalization <epsilon = 1e-5> (x, o, scale)
}
"""


@pytest.mark.parametrize(("text", "norms"), [(STANDARD, 1), (FUSED, 2)], ids=["the standard's", "com.microsoft's"])
def test_operators_of_todays_decoders_stand_on_the_machine_as_a_whole(text: str, norms: int, tmp_path: Path) -> None:
    model, rng = parser.parse_model(text), np.random.default_rng(0)
    widths = {"wq": 128, "wk": 64, "wv": 64, "wo": 128}
    angles = np.arange(40)[:, None] / 10000.0 ** (np.arange(16) / 16)
    given = {name: rng.normal(0, 128**-0.5, (128, width)) for name, width in widths.items()} | {"scale": np.ones(128)}
    given |= {"cos": np.cos(angles), "sin": np.sin(angles)}
    counts = {"last": np.array([11], np.int32), "count": np.array(12, np.int32)} if text == FUSED else {}
    arrays: dict[str, np.ndarray] = {name: array.astype(np.float32) for name, array in given.items()} | counts
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
    onnx.save(model, tmp_path / "decoder.onnx")
    places = "inputs: {places: {shape: [1, 12], below: 40}}\n" if text == STANDARD else ""
    file = "model: {name: decoder, summary: a layer}\nonnx: decoder.onnx\ncalibration: {seeded: 4}\nplace: all\n"
    (tmp_path / "decoder.yaml").write_text(file + places)
    _, built, samples = build(TARGET, str(tmp_path / "decoder.yaml"), tmp_path / "build", effort="0")
    verdict = verify_model(built, samples, SampleSize(instructions=6, elements=1, whole=0, seed=1))
    assert verdict.exact, verdict_text(verdict)
    assert len(verdict.regions) == 1
    assert all(output.allowed for output in verdict.outputs)
    kinds = [kind_of(node) for node in built.integer.graph if is_integer(node)]
    assert (kinds.count("rotary"), kinds.count("rms_norm"), kinds.count("spaced_attention_values")) == (2, norms, 1)


PRODUCTS = """
<ir_version: 8, opset_import: ["": 21]>
products (float[1, 19, 70] x, float[1, 70, 52] z) => (float[1, 19, 36] y)
<float[52, 36] w>
{
  product = MatMul (x, z)
  positive = Relu (product)
  shares = Softmax <axis = AXIS> (positive)
  y = MatMul (shares, w)
}
"""


@pytest.mark.parametrize(("axis", "on_host"), [(-1, set[str]()), (2, set[str]()), (1, {"Softmax"})])
def test_a_softmax_and_a_product_of_their_own_stand_on_the_machine(axis: int, on_host: set[str], tmp_path: Path) -> None:
    """Channels fill no whole blocks, and a ReLU follows the product. A softmax over rows is the host's."""
    model = parser.parse_model(PRODUCTS.replace("AXIS", str(axis)))
    values = np.random.default_rng(0).standard_normal((52, 36)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(values, "w"))
    onnx.save(model, tmp_path / "products.onnx")
    _, built, samples = build(TARGET, str(tmp_path / "products.onnx"), tmp_path / "build", effort="0", place="all")
    verdict = verify_model(built, samples, SampleSize(instructions=6, elements=1, whole=0, seed=1))
    assert verdict.exact, verdict_text(verdict)
    assert {kind_of(node) for node in built.integer.graph if is_integer(node)} >= {"matmul", "linear", *([] if on_host else ["softmax"])}
    assert {node.op_type for node in built.integer.graph if not node.domain} == on_host
