"""A network in halves is exact to the bit against its machine's own arithmetic; another order of its sums is found out.

What is right is found right; a deliberate fault is named with its tensor, its element and the instruction behind it.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper, parser

from tests.graph.encoder import encoder
from tests.graph.llama import Shape as DecoderShape
from tests.graph.llama import llama
from tests.schedule.convolutions import convolution, direct
from tests.schedule.made_regions import expected as made_expected
from tests.schedule.many_cores import chip
from tests.schedule.test_compile_region import images, three_convolutions
from tests.verify.builds import build
from tests.verify.networks import network
from tests.verify.regions import labelled, small, small_on_streams, with_byte, with_field
from toolchain.abi.dram_map import Shape
from toolchain.graph.integers.functions import is_integer, kind_of
from toolchain.graph.regions import region_calls
from toolchain.operations.library import kinds_of
from toolchain.operations.operation import Operation
from toolchain.schedule.compile_region import compile_region, find_schedule
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options
from toolchain.schedule.regions.region import Bound, Region, Slice
from toolchain.spec.errors import UserError
from toolchain.spec.model.quantisation import Floats, Numerics
from toolchain.verify.built import ProgramUnderTest, program_of_build, program_of_region
from toolchain.verify.compare import differing_bits, first_samples, oracle_tensors
from toolchain.verify.ladder import verify_model
from toolchain.verify.reference_sample import SampleSize
from toolchain.verify.region_ladder import Checkpoint, climb_region, declared_tensors, find_checkpoints
from toolchain.verify.verdict import Difference, RegionVerdict, verdict_text

TARGET = "stcp920:f16"


@pytest.mark.drawn(1)
@pytest.mark.parametrize(
    ("target", "seed"),
    [pytest.param(TARGET, 0, marks=pytest.mark.nightly), (TARGET, 1), (TARGET, 2), ("stcp920:bf16", 1)],
    ids=lambda value: str(value),
)
def test_random_networks_climb_the_ladder(target: str, seed: int, tmp_path: Path) -> None:
    (tmp_path / "random.yaml").write_text(network(seed))
    _, built, samples = build(target, str(tmp_path / "random.yaml"), tmp_path / "build")
    verdict = verify_model(built, samples, SampleSize(instructions=6, elements=1, whole=0, seed=seed))
    told = verdict_text(verdict)
    assert verdict.exact, told
    assert verdict.tensors > 4
    assert "compared with the machine's own arithmetic" in told
    assert "dB near or nearer" in told or "ONNX Runtime computes the same bits" in told
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
    file.write_text(re.sub(r"(?m)^tolerance:\n(  .*\n)+", "", text))
    with pytest.raises(UserError, match="E0109 missing key 'tolerance'"):
        build(f"{file}:f16", "digits", tmp_path / "build")


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


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("tokens", "causal", "more"),
    [
        (32, False, {}),
        pytest.param(32, False, {"streams": "2"}, marks=pytest.mark.nightly),
        (21, True, {"streams": "2"}),
        (32, False, {"images": "2"}),
        (21, True, {"batch": "2"}),
    ],
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


@pytest.mark.drawn(1)
@pytest.mark.parametrize(("target", "width"), [(TARGET, 96), ("stcp920", 96), ("stcp920", 160), (TARGET, 160)])
def test_heads_of_48_and_80_channels_stand_on_the_machine_as_a_whole(target: str, width: int, tmp_path: Path) -> None:
    """Zeros make them whole blocks of 32."""
    onnx.save(encoder(width=width, rows=21), tmp_path / "heads.onnx")
    (tmp_path / "heads.yaml").write_text("model: {name: heads, summary: an encoder}\nonnx: heads.onnx\n")
    _, built, samples = build(target, str(tmp_path / "heads.yaml"), tmp_path / "build", effort="0")
    verdict = verify_model(built, samples, SampleSize(instructions=6, elements=1, whole=0, seed=1))
    assert verdict.exact, verdict_text(verdict)
    assert len(verdict.regions) == 1
    assert not [node.op_type for node in built.integer.graph if not node.domain]


FORWARD = """
model: {name: forward, summary: dense layers whose weights wait}
inputs:
  tokens: {shape: [1, 24], below: 50}
layers:
  - embedding: {out: 64}
  - layernorm
  - add: {of: [[], [dense: {out: 128, act: gelu}, dense: {out: 64}]]}
"""


def test_copies_load_what_another_one_has_brought(tmp_path: Path) -> None:
    """Weights wait for three images in the memory of their cluster: in the order of the schedule too a tile is there before it is loaded."""
    (tmp_path / "forward.yaml").write_text(FORWARD)
    _, built, samples = build(TARGET, str(tmp_path / "forward.yaml"), tmp_path / "build", effort="0", images="3")
    (tested,) = [program_of_build(built, call) for call in region_calls(built.partitioned)]
    assert "bring" in {step.kind for step in tested.origins.steps}, "the program is of the kind that is meant"
    verdict = verify_model(built, samples, SampleSize(instructions=6, elements=1, whole=0, seed=1))
    assert verdict.exact, verdict_text(verdict)


LOOKING = """
model: {name: looking, summary: attention alone}
inputs:
  tokens: {shape: [1, 24], below: 50}
layers:
  - embedding: {out: 64}
  - attention: {heads: 2}
"""


@pytest.mark.parametrize("more", [{"streams": "2"}, {"batch": "3"}], ids=["two cores", "a batch"])
def test_tiles_that_a_reader_asks_for_are_those_that_the_maker_may_make(more: dict[str, str], tmp_path: Path) -> None:
    """A tile of the layer behind it may want two heads of values, which are made one at a time."""
    (tmp_path / "looking.yaml").write_text(LOOKING)
    _, built, samples = build("stcp920", str(tmp_path / "looking.yaml"), tmp_path / "build", effort="0", search="subgraphs", **more)
    verdict = verify_model(built, samples, SampleSize(instructions=6, elements=1, whole=0, seed=1))
    assert verdict.exact, verdict_text(verdict)


DECODERS: list[tuple[DecoderShape, dict[str, str]]] = [
    (DecoderShape(rows=20), {"streams": "2"}),
    (DecoderShape(rows=9, inner=64, heads=2, shared=1, turned=32), {}),
    (DecoderShape(rows=9, shared=4, interleaved=True, computed=True), {}),
]


@pytest.mark.drawn(1)
@pytest.mark.parametrize(
    ("shape", "more"),
    [*DECODERS, pytest.param(DECODERS[1][0], {"batch": "2"}, marks=pytest.mark.nightly)],  # a batch of an encoder's layer stands above
    ids=["two queries to a key", "half of a head", "neighbours by positions", "half of a head twice"],
)
def test_a_layer_of_todays_decoders_stands_on_the_machine_as_a_whole(shape: DecoderShape, more: dict[str, str], tmp_path: Path) -> None:
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


@pytest.mark.drawn(1)
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


@pytest.mark.parametrize(("axis", "on_host"), [pytest.param(-1, set[str](), marks=pytest.mark.nightly), (2, set[str]()), (1, {"Softmax"})])
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


FEW = SampleSize(instructions=6, elements=1, whole=0)


def climb(tested: ProgramUnderTest) -> RegionVerdict:
    return climb_region(tested, small()[1], FEW)


def different(verdict: RegionVerdict) -> list[str]:
    return [item.tensor for item in verdict.compared if item.difference]


def difference(tested: ProgramUnderTest) -> Difference:
    verdict = climb(tested)
    assert not verdict.exact
    assert verdict.difference is not None
    return verdict.difference


def test_a_right_program_is_exact() -> None:
    verdict = climb(small()[0])
    assert verdict.exact
    assert [(item.tensor, item.after, item.elements) for item in verdict.compared] == [
        ("image", "", 600),
        ("middle", "early", 510),
        ("result", "late", 720),
    ]
    assert verdict.sampled.instructions == 6
    assert verdict.ordered


def two_runs() -> tuple[ProgramUnderTest, dict[str, NDArray[Any]]]:
    """The same program, and what two images should leave: the second is the first, turned round."""
    tested, first = small()
    early, late = (bound.operation for bound in tested.region.operations)
    assert isinstance(early, Operation)
    assert isinstance(late, Operation)
    x = first["image"][..., ::-1]
    middle = direct(early, x).astype(np.int8)
    second = {"image": x, "middle": middle, "result": direct(late, middle).astype(np.int8)}
    return tested, {name: np.concatenate([first[name], second[name]]) for name in first}


def test_every_run_is_compared() -> None:
    tested, expected = two_runs()
    verdict = climb_region(tested, expected, FEW)
    assert verdict.exact
    assert [(item.tensor, item.elements) for item in verdict.compared] == [("image", 1200), ("middle", 1020), ("result", 1440)]


def test_a_fault_that_only_another_image_shows() -> None:
    tested, expected = two_runs()
    place = (1, 3, 2, 1)
    expected["result"][place] ^= 1
    verdict = climb_region(tested, expected, FEW)
    assert not verdict.exact
    assert different(verdict) == ["result"]
    assert verdict.difference is not None
    assert (verdict.difference.coordinates, verdict.difference.differing) == (place, 1)
    assert verdict.difference.writer is not None


def test_runs_are_whole() -> None:
    tested, expected = two_runs()
    with pytest.raises(ValueError, match="too many values"):
        climb_region(tested, {**expected, "result": expected["result"][:1]}, FEW)


def test_a_changed_field_is_found_at_the_tensor_where_it_shows_first() -> None:
    tested, expected = small()
    alu = labelled(tested, "early finish")
    broken = with_field(tested, alu, "imm", tested.program.field(alu, "imm") - 1)
    assert different(climb(broken)) == ["middle", "result"]
    found = difference(broken)
    assert (found.tensor, found.operation, found.nodes) == ("middle", "early", ("node_a", "node_b"))
    assert found.expected == expected["middle"][found.coordinates] != found.found
    assert found.writer is not None
    assert found.writer.label.startswith("early store y")
    assert any(text.startswith(f"#{alu} ALU") for text in found.writer.before)


def test_a_fault_in_the_last_operation_leaves_the_others_right() -> None:
    tested, _ = small()
    gemm = [k for k, label in enumerate(tested.listing) if label.startswith("late compute")][-1]
    broken = with_field(tested, gemm, "iter_in", 5)
    assert different(climb(broken)) == ["result"]
    found = difference(broken)
    assert (found.operation, found.nodes) == ("late", ("node_c",))
    assert found.writer is not None
    assert any(text.startswith(f"#{gemm} GEMM") for text in found.writer.before)


def test_what_nothing_wrote_is_told() -> None:
    tested, _ = small()
    store = [k for k, label in enumerate(tested.listing) if label.startswith("late store")][-1]
    found = difference(with_field(tested, store, "dram_base", tested.program.field(store, "dram_base") + 60))
    assert found.coordinates[:2] == (0, 16)
    assert found.writer is None
    assert found.operation == "late"


def test_a_flipped_constant_is_found_in_its_channel() -> None:
    tested, _ = small()
    weights = labelled(tested, "late load w")
    place = tested.program.field(weights, "dram_base") * 256 - tested.map.segments["constants"].address
    found = difference(with_byte(tested, "constants", place + 3 * 16 + 2))
    assert found.tensor == "result"
    assert found.coordinates[1] == 3
    assert 0 < found.differing <= 30


def test_a_missing_token_is_a_hazard() -> None:
    tested, _ = small()
    hurried = next(k for k, label in enumerate(tested.listing) if label.startswith("early compute") and tested.program.field(k, "pop_prev"))
    verdict = climb(with_field(tested, hurried, "pop_prev", 0))
    assert not verdict.exact
    assert any("race" in text for text in verdict.hazards)


def test_what_cannot_be_compared_is_told() -> None:
    tested, expected = small()
    verdict = climb_region(tested, {name: array for name, array in expected.items() if name != "middle"}, FEW)
    assert not verdict.exact
    assert verdict.unseen == (("middle", "the integer network has no tensor of this name"),)


def test_an_output_is_looked_at_again_in_the_end() -> None:
    """Here the second operation writes over the first one's result, which is declared an output."""
    tested, _ = small()
    middle, result = (tested.map.tensors[name] for name in ("middle", "result"))
    stands = replace(tested.map, tensors={**tested.map.tensors, "middle": replace(middle, segment="results", offset=result.offset)})
    moved = [k for k, label in enumerate(tested.listing) if label.startswith(("early store", "late load x"))]
    shift = (tested.map.segments["results"].address - tested.map.segments["swap"].address) // 16
    for k in moved:
        tested = with_field(tested, k, "dram_base", tested.program.field(k, "dram_base") + shift)
    region = replace(tested.region, outputs=("middle", "result"))
    verdict = climb(replace(tested, map=stands, region=region))
    assert [(item.tensor, item.difference is None) for item in verdict.compared] == [
        ("image", True),
        ("middle", True),
        ("result", True),
        ("middle", False),
    ]
    assert verdict.difference is not None
    assert verdict.difference.operation == "late"


def test_an_order_of_units_that_changes_the_outputs_is_told() -> None:
    """Without tokens each unit runs through on its own; here the one that stores comes first."""
    tested, _ = small()
    tokens = {f"{what}_{side}" for what in ("pop", "push") for side in ("prev", "next")}
    columns = tuple({name: np.zeros_like(own[name]) if name in tokens else own[name] for name in own} for own in tested.program.columns)
    verdict = climb(replace(tested, program=replace(tested.program, columns=columns)))
    assert verdict.difference is None
    assert verdict.hazards
    assert not verdict.exact


def test_streams_that_share_the_work_are_compared_in_the_order_of_the_schedule() -> None:
    tested, expected = small_on_streams(3)
    assert len(np.unique(tested.program.stream[tested.owner >= 0])) == 3
    verdict = climb_region(tested, expected, FEW)
    assert verdict.exact
    assert different(climb_region(with_byte(tested, "constants", 0), expected, FEW)) == ["middle", "result"]


SHAPE = Shape(1, 4, 4, 4)


def step(x: str, y: str) -> Bound:
    return Bound(convolution((1, 4, 4, 4), (4, 1, 1)), {"x": x, "y": y})


def side_by_side() -> Region:
    """a and b, made from x by two operations, stand in `both`, which a third one reads; x stands in `outer` beside nothing."""
    operations = step("x", "a"), step("a", "b"), step("both", "y")
    slices = {"a": Slice("both", 0), "b": Slice("both", 4), "x": Slice("outer", 0)}
    return Region("r", dict.fromkeys(("x", "a", "b", "both", "y", "outer"), SHAPE), ("x",), ("y",), operations, slices)


def test_tensors_are_complete_after_their_operations_last_instruction() -> None:
    owner = np.array([-1, 0, 0, -1, 1, 0, 1, 2, -1])
    assert find_checkpoints(side_by_side(), owner) == (
        Checkpoint(-1, 0, ("x", "outer")),
        Checkpoint(0, 6, ("a",)),
        Checkpoint(1, 7, ("b", "both")),
        Checkpoint(2, 8, ("y",)),
    )


def test_an_operation_that_is_done_early_is_looked_at_early() -> None:
    cuts = find_checkpoints(side_by_side(), np.array([0, 2, 1, 1]))
    assert [(cut.operation, cut.stop) for cut in cuts] == [(-1, 0), (0, 1), (2, 2), (1, 4)]


def test_an_operation_without_instructions_is_refused() -> None:
    with pytest.raises(ValueError, match="operation 1 has no instruction"):
        find_checkpoints(side_by_side(), np.array([0, 2]))


def test_what_is_read_out_of_a_tensor_is_complete_with_it() -> None:
    region = side_by_side()
    views = {"half": Slice("both", 4, view=True), "quarter": Slice("half", 2, view=True)}
    region = replace(region, tensors={**region.tensors, "half": SHAPE, "quarter": SHAPE}, slices={**region.slices, **views})
    done = {name: cut.operation for cut in find_checkpoints(region, np.array([0, 1, 2])) for name in cut.tensors}
    assert done["half"] == done["quarter"] == done["both"]


@pytest.mark.parametrize(("copies", "streams"), [pytest.param(4, 1, marks=pytest.mark.nightly), (2, 2)])
def test_copies_that_load_for_each_other_are_compared_in_one_run(copies: int, streams: int) -> None:
    """Each tensor as soon as its copy has it; a fault in the last copy's is told with its image."""
    machine, region = chip(1, 4), three_convolutions(24)
    options = Options(copies=copies, streams=streams, timed_streams=False, effort=0)
    schedule = replace(find_schedule(machine, load_kernels(machine), region, options), multicast=True)
    tested = program_of_region(compile_region(machine, load_kernels(machine), region, None, schedule))
    numerics = machine.quantisation or Numerics()
    every = [made_expected(region, images(region, number), numerics) for number in range(2 * copies)]
    wanted = {name: np.concatenate([each[name] for each in every]) for name in region.tensors}
    verdict = climb_region(tested, wanted, FEW)
    assert verdict.exact
    assert {item.elements for item in verdict.compared} == {2 * copies * 32 * 24 * 24}
    wanted["t"][2 * copies - 1, 3, 2, 1] ^= 1
    found = climb_region(tested, wanted, FEW)
    assert different(found) == ["t"]
    assert found.difference is not None
    assert found.difference.coordinates == (2 * copies - 1, 3, 2, 1)
