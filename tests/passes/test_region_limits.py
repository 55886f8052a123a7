"""Limits of regions: what weighs, the reason for what is too large alone, and a network that is cut and stays exact."""

import math
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from bench.in_process import Target, compile_file
from tests.c_networks import pictures, plain_network
from toolchain.passes.region_limits import oversize, room_for
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine
from toolchain.spec.model import RegionLimits
from toolchain.spec.reasons import texts_of

ROOT = Path(__file__).resolve().parents[2]


def _nodes() -> list[ir.Node]:
    return list(ir.serde.deserialize_model(onnx.shape_inference.infer_shapes(plain_network())).graph)


def test_nothing_is_weighed_without_limits() -> None:
    assert room_for(_nodes(), RegionLimits()) is None
    assert not any(oversize(node, RegionLimits()) for node in _nodes())


def test_a_node_weighs_what_it_has() -> None:
    room = room_for(_nodes(), RegionLimits(operations=3, macs=10**6))
    assert room is not None
    assert room.most == (3, 10**6, math.inf, math.inf)
    results = 18 * 6 * 10
    assert room.weights[0] == (1, results * 27, 4 * (18 * 27 + 18), 4 * results)  # the first convolution, in float32
    assert room.weights[1] == (1, 0, 0, 4 * results)  # ReLU


def test_an_operation_that_is_too_large_alone_has_a_reason() -> None:
    conv, relu = _nodes()[:2]
    assert texts_of(oversize(conv, RegionLimits(macs=29159))) == "it has 29,160 macs, and the machine's file allows 29,159 in a region"
    assert not oversize(conv, RegionLimits(macs=29160))
    assert texts_of(oversize(relu, RegionLimits(result_bytes=4319))) == "it has 4,320 result bytes, and the machine's file allows 4,319 in a region"


def _limited(folder: Path, limits: str) -> Path:
    """dpuv3 with limits, its kernels beside it."""
    (folder / "dpuv3").symlink_to(ROOT / "targets" / "dpuv3")
    path = folder / "dpuv3.yaml"
    path.write_text(f"{(ROOT / 'targets' / 'dpuv3.yaml').read_text()}\nregions: {limits}\n")
    return path


def test_a_network_in_several_regions_is_the_same(tmp_path: Path) -> None:
    onnx.save(plain_network(), tmp_path / "plain.onnx")
    samples = {"x": pictures(4)}
    whole = compile_file(tmp_path / "plain.onnx", Target("dpuv3"), tmp_path / "whole", {}, samples)
    cut = compile_file(tmp_path / "plain.onnx", Target(str(_limited(tmp_path, "{operations: 2}"))), tmp_path / "cut", {}, samples)
    assert (whole.regions, cut.regions) == (1, 4)
    given = {"x": pictures(8)[:, 0]}
    assert np.array_equal(whole.executor.run(given).outputs["y"], cut.executor.run(given).outputs["y"])


def test_a_limit_that_no_region_keeps_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="E0105 a region with at most 0 macs cannot be"):
        load_machine(str(_limited(tmp_path, "{macs: 0}")))
