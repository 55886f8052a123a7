"""The whole ladder for every kind of operator and every corner: networks made of them, and random ones, on both machines."""

from pathlib import Path

import onnx
import pytest

from tests.passes.test_quantize import branchy
from tests.schedule.corners import corners
from tests.verify.builds import build
from tests.verify.networks import network
from toolchain.verify.ladder import verify_model
from toolchain.verify.reference_sample import SampleSize
from toolchain.verify.verdict import verdict_text

MACHINES = ("vta", "dpuv3")


def climbs(target: str, model: Path, root: Path, seed: int = 0) -> None:
    _, built, samples = build(target, str(model), root)
    verdict = verify_model(built, samples, SampleSize(instructions=6, elements=1, whole=0, seed=seed))
    assert verdict.exact, verdict_text(verdict)
    assert verdict.tensors > 4


@pytest.mark.parametrize("target", MACHINES)
@pytest.mark.parametrize("proto", [branchy(), corners()], ids=["branches", "corners"])
def test_networks_of_corners(target: str, proto: onnx.ModelProto, tmp_path: Path) -> None:
    onnx.save(proto, tmp_path / "model.onnx")
    climbs(target, tmp_path / "model.onnx", tmp_path / "build")


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("target", MACHINES)
def test_random_networks(target: str, seed: int, tmp_path: Path) -> None:
    (tmp_path / f"random{seed}.yaml").write_text(network(seed))
    climbs(target, tmp_path / f"random{seed}.yaml", tmp_path / "build", seed)
