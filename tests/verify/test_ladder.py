"""digits, built as the tasks build it, climbs the whole ladder; a bundle with one wrong bit does not."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from bench.in_process import Target
from tests.c_networks import clib, compiled, pictures
from tests.codegen.test_c99 import integer_region
from tests.compiled_network import compile_network
from tests.graph.onnx_builder import model
from tests.graph_networks import built, regions, samples
from tests.special_values import special_values
from tests.verify.builds import build
from toolchain.graph.regions import GraphRegion, region_calls, region_function
from toolchain.graph.store import read_stage
from toolchain.runtime.open_region import Stored
from toolchain.schedule.backend import Backend
from toolchain.schedule.read_region import read_region
from toolchain.schedule.regions.region import Region
from toolchain.spec.errors import UserError
from toolchain.tasks.actions.paths import graph_file
from toolchain.verify.built import Built, bundled_program, read_built, stage_before
from toolchain.verify.compare import Samples, oracle_tensors
from toolchain.verify.ladder import LARGE, border_names, climb_calls, climb_graph, compared_images, lost_tensors, verify_model
from toolchain.verify.reference_sample import SampleSize
from toolchain.verify.verdict import verdict_data, verdict_text

needs_c = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on this machine")


@needs_c
def test_every_tensor_is_compared() -> None:
    found = compiled()
    stages = sorted(found.folder.glob("[0-9][0-9]-*.onnx"))
    expected = oracle_tensors(read_stage(stages[-2]), {"x": pictures(3)})
    own, bundle = integer_region(), found.bundle
    (program,) = bundle.manifest.regions
    verdict = climb_calls(clib(), own, bundle, program, expected)
    assert verdict.exact
    assert verdict.sampled is None
    assert verdict.instructions == len(own.operations)
    assert {item.tensor for item in verdict.compared} == set(own.tensors) - set(own.inputs)
    assert all(item.elements % 3 == 0 for item in verdict.compared)
    member = program.constants["constants"]
    data = np.frombuffer(bundle.members[member], np.uint8).copy()
    data ^= 1
    wrong = climb_calls(clib(), own, replace(bundle, members={**bundle.members, member: data.tobytes()}), program, expected)
    assert not wrong.exact
    assert wrong.difference is not None
    assert wrong.difference.tensor == "y.int8"
    lost = climb_calls(clib(), own, bundle, program, {name: array for name, array in expected.items() if name != "d.int8"})
    assert [name for name, _ in lost.unseen] == ["d.int8"]


def test_borders_are_compared() -> None:
    found, machine = built(), built().executor.machine
    stages = sorted(found.folder.glob("[0-9][0-9]-*.onnx"))
    names = [name for region in regions() for name in border_names(region)]
    expected = oracle_tensors(read_stage(stages[-2]), {"x": samples(3)}, names)
    assert set(names) <= set(expected)
    for graph, program in zip(regions(), found.bundle.manifest.regions, strict=True):
        verdict = climb_graph(graph, Stored(found.bundle, program, machine, "", False, optimise=False), expected)
        assert verdict.exact
        assert verdict.instructions == len(graph.nodes)
        assert [item.tensor for item in verdict.compared] == [tensor.name for tensor in graph.outputs]
    region, program = regions()[0], found.bundle.manifest.regions[0]
    member = program.constants["constants"]
    data = np.frombuffer(found.bundle.members[member], np.uint8).copy()
    data[:64] ^= 1  # of the first constant, weights
    damaged = replace(found.bundle, members={**found.bundle.members, member: data.tobytes()})
    wrong = climb_graph(region, Stored(damaged, program, machine, "", False, optimise=False), expected)
    assert not wrong.exact
    assert wrong.difference is not None
    assert wrong.difference.differing > 0


def test_rows_of_nearly_equal_numbers_are_close_and_a_wrong_scale_is_not() -> None:
    """ONNX Runtime's mean is a float32: its own results are further from the truth than the tolerance, by what the last bits of the rows explain."""
    rows = (100 + 1e-3 * np.random.default_rng(0).normal(size=(2, 6, 7))).astype(np.float32)
    node = helper.make_node("LayerNormalization", ["x", "scale"], ["y"], "norm", epsilon=1e-5)
    proto = model([node], {"x": [6, 7]}, {"y": [6, 7]}, {"scale": np.ones(7, np.float32)})
    found = compile_network(proto, "rows", Target("clib32"), rows)
    (program,), machine = found.bundle.manifest.regions, found.executor.machine
    (call,) = region_calls(found.partitioned)
    region = Backend(machine, {}).read(found.partitioned, call)
    assert isinstance(region, GraphRegion)
    expected = oracle_tensors(read_stage(found.integer), {"x": rows}, border_names(region))
    verdict = climb_graph(region, Stored(found.bundle, program, machine, "", True, optimise=False), expected)
    assert verdict.right
    assert " elements are further, by what 2 times the last bits of the region's inputs change there" in verdict.allowed
    wrong = climb_graph(region, Stored(found.bundle, program, machine, "", True, optimise=False), expected | {"y": expected["y"] * np.float32(1.03)})
    assert not wrong.right


FEW = SampleSize(instructions=8, elements=1, whole=0)
Digits = tuple[Path, Built, Samples]


@pytest.fixture(scope="module", params=["vta", "dpuv3"])
def digits(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Digits:
    folder = tmp_path_factory.mktemp(request.param)
    job, built, samples = build(request.param, "digits", folder)
    return graph_file(job).parents[1], built, samples  # schedules of another effort have a folder of their own beside it


def flipped(built: Built, region: int, segment: str) -> Built:
    """The same bundle with one bit of a region's constants changed, in the middle of those bytes that are no zeros of a padding."""
    program = built.bundle.manifest.regions[region]
    data = bytearray(built.bundle.members[program.constants[segment]])
    filled = [index for index, byte in enumerate(data) if byte]
    data[filled[len(filled) // 2]] ^= 0x10
    members = {**built.bundle.members, program.constants[segment]: bytes(data)}
    return replace(built, bundle=replace(built.bundle, members=members))


def test_digits_is_exact(digits: Digits) -> None:
    _, built, samples = digits
    said: list[str] = []
    verdict = verify_model(built, samples, FEW, said.append)
    assert verdict.exact
    assert verdict.tensors == 12
    assert verdict.images == 4
    assert sum(item.elements for item in verdict.regions[0].compared) == 25896
    assert [(output.output, output.differing) for output in verdict.outputs] == [("logits", 0)]
    assert len(verdict.errors) >= 10
    assert verdict.errors[0].sqnr > 10
    assert "region 1 of 1: on the machine" in said
    text = verdict_text(verdict)
    assert f"digits on {verdict.machine}: exact; 12 tensors of 4 images, 25896 elements" in text
    assert "no race, no deadlock; 12 of 12 tensors equal; the reference engine agrees on 8 sampled instructions" in text
    assert json.loads(json.dumps(verdict_data(verdict), allow_nan=False))["exact"] is True
    assert verdict_data(verdict)["compared"] is True


def test_special_values_climb_the_ladder(digits: Digits) -> None:
    _, built, samples = digits
    (name, shape), values = next((name, array.shape[1:]) for name, array in samples.items()), special_values(0.125)[2:]
    assert not np.isnan(values).any()
    images = {name: np.stack([np.resize(np.roll(values, 7 * number), shape) for number in range(4)])}
    verdict = verify_model(built, images, FEW)
    assert verdict.exact
    assert [output.mixed for output in verdict.outputs] == [0]


def test_a_sample_with_nan_is_refused(digits: Digits) -> None:
    _, built, samples = digits
    given = {name: np.where(np.arange(array.size).reshape(array.shape) == 0, np.nan, array).astype(np.float32) for name, array in samples.items()}
    with pytest.raises(UserError, match="E1134"):
        verify_model(built, given, FEW)


def test_a_flipped_bit_in_the_bundle_is_traced_to_its_node(digits: Digits) -> None:
    _, built, samples = digits
    broken = flipped(built, 0, next(iter(built.bundle.manifest.regions[0].constants)))
    verdict = verify_model(broken, samples, FEW)
    assert not verdict.exact
    found = verdict.regions[0].difference
    assert found is not None
    names = {node.name for node in built.floating.graph}
    assert found.nodes
    assert set(found.nodes) <= names
    text = verdict_text(verdict)
    assert "NOT EXACT" in text
    assert f"first difference: tensor {found.tensor}[{', '.join(map(str, found.coordinates))}] is {found.found}, expected {found.expected}" in text
    assert "was last written by #" in text


def test_labels_come_from_the_listing_beside_the_bundle_or_from_the_origins(digits: Digits, tmp_path: Path) -> None:
    _, built, _ = digits
    program, (call, *_) = built.bundle.manifest.regions[0], region_calls(built.partitioned)
    region = built.backend(call).read(built.partitioned, call)
    assert isinstance(region, Region)
    full = bundled_program(built.bundle, program, region, built.machine, built.place).listing
    short = bundled_program(built.bundle, program, region, built.machine, str(tmp_path / "none.bundle")).listing
    assert len(full) == len(short)
    assert all(one.startswith(other) for one, other in zip(full, short, strict=True))
    assert sum(map(len, full)) > sum(map(len, short)) > 0
    (tmp_path / f"{program.name}.txt").write_text("0 LOAD a listing of another program\n")
    assert bundled_program(built.bundle, program, region, built.machine, str(tmp_path / "none.bundle")).listing == short


def test_stages_are_found_by_their_pass(digits: Digits, tmp_path: Path) -> None:
    folder, built, _ = digits
    assert stage_before(folder / "graph", "partition").stem.endswith("quantize")
    assert stage_before(folder / "graph", "nothing").stem.endswith("partition")
    with pytest.raises(UserError, match="E0001 there are no stages of a graph here"):
        read_built([built.machine], tmp_path, tmp_path / "no.bundle", tmp_path / "no.onnx")


def test_a_node_that_no_operation_stands_for_is_told(digits: Digits) -> None:
    _, built, _ = digits
    (call,) = region_calls(built.partitioned)
    region, nodes = read_region(built.machine, built.backend(call).kernels, built.partitioned, call), list(region_function(built.partitioned, call))
    assert lost_tensors(region, nodes) == []
    (lost,) = (bound for bound in region.operations if bound.operation.name == "conv3")
    operations = tuple(bound for bound in region.operations if bound is not lost)
    without = {name: shape for name, shape in region.tensors.items() if name != lost.tensors["y"]}
    assert lost_tensors(replace(region, operations=operations, tensors=without), nodes) == [lost.tensors["y"]]


def test_a_model_without_regions_says_so(tmp_path: Path) -> None:
    (tmp_path / "soft.yaml").write_text("model: {name: soft, summary: for a test}\ninputs: {row: [1, 10]}\nlayers: [softmax]\n")
    _, built, samples = build("vta", str(tmp_path / "soft.yaml"), tmp_path / "build")
    verdict = verify_model(built, samples, FEW)
    assert verdict.exact
    assert "nothing runs on the machine" in verdict_text(verdict)
    assert "warning: no tensor of a machine was compared" in verdict_text(verdict)
    assert verdict_data(verdict)["compared"] is False


@pytest.mark.parametrize(
    ("macs", "per_run", "samples", "images"),
    [
        (10, 1, 8, 4),
        (LARGE - 1, 1, 8, 4),
        (LARGE, 1, 8, 2),
        (10, 4, 8, 4),
        (LARGE, 4, 8, 4),
        (10, 3, 8, 6),
        (10, 1, 3, 3),
        (10, 4, 2, 4),
        (LARGE, 1, 1, 1),
        (10, 1, 0, 1),
    ],
)
def test_images_fill_whole_runs(macs: int, per_run: int, samples: int, images: int) -> None:
    assert compared_images(macs, per_run, samples) == images
