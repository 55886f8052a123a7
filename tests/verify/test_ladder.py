"""digits, built as the tasks build it, climbs the whole ladder; a bundle with one wrong bit does not."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.special_values import special_values
from tests.verify.builds import build
from toolchain.graph.regions import region_calls, region_function
from toolchain.schedule.read_region import read_region
from toolchain.schedule.regions.region import Region
from toolchain.spec.errors import UserError
from toolchain.verify.built import Built, read_built, stage_before
from toolchain.verify.compare import Samples
from toolchain.verify.ladder import LARGE, compared_images, lost_tensors, verify_model
from toolchain.verify.program_under_test import bundled_program
from toolchain.verify.reference_sample import SampleSize
from toolchain.verify.verdict import verdict_data, verdict_text

FEW = SampleSize(instructions=8, elements=1, whole=0)
Digits = tuple[Path, Built, Samples]


@pytest.fixture(scope="module", params=["vta", "dpuv3"])
def digits(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Digits:
    folder = tmp_path_factory.mktemp(request.param)
    job, built, samples = build(request.param, "digits", folder)
    return job.folder, built, samples


def flipped(built: Built, region: int, segment: str) -> Built:
    """The same bundle with one bit of a region's constants changed in the middle."""
    program = built.bundle.manifest.regions[region]
    data = bytearray(built.bundle.members[program.constants[segment]])
    data[len(data) // 2] ^= 0x10
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


def test_special_values_climb_the_ladder(digits: Digits) -> None:
    _, built, samples = digits
    (name, shape), values = next((name, array.shape[1:]) for name, array in samples.items()), special_values(0.125)
    images = {name: np.stack([np.resize(np.roll(values, 7 * number), shape) for number in range(4)])}
    verdict = verify_model(built, images, FEW)
    assert verdict.exact
    assert [output.mixed for output in verdict.outputs] == [0]


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
