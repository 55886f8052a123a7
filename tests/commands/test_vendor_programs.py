"""The vendor's DPUv3INT8 programs from the command line alone: files in, files out."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.target_runs import conv, half_up
from toolchain.cli import main

RESULT, SWAP, PARAMETERS = 1 << 24, 1 << 27, 1 << 28
BASES = [f"--register={name}={value:#x}" for name, value in (("r0", 0), ("r1", RESULT), ("r2", SWAP), ("r3", PARAMETERS))]
FOUR = [0, 1, 0, 1]
SHIFT_CUT = 8  # of the one CONVINIT


def emulated(folder: Path, streams: Path, name: str, side: int) -> NDArray[np.int8]:
    """What the program makes of images 0, 1, 0, 1: [image, side, side, 64]."""
    pixels = np.zeros((224, 224, 4, 16), np.int8)
    with np.load(streams / "conv1_pool1_golden.npz") as golden:
        pixels[..., :3] = golden["input_nhwc"][FOUR].transpose(1, 2, 0, 3)
        golden["params_plain"].tofile(folder / "parameters.bin")
    pixels.tofile(folder / "images.bin")
    files = ["--memory", f"ddr={folder / 'images.bin'}", "--memory", f"ddr={folder / 'parameters.bin'}@{PARAMETERS:#x}"]
    made = f"ddr={folder / 'made.bin'}@{RESULT:#x}:{side * side * 256}"
    assert main(["emulate", "dpuv3", str(streams / f"{name}.hex"), *files, *BASES, "--out", made]) == 0
    return np.fromfile(folder / "made.bin", np.int8).reshape(side, side, 4, 4, 16).transpose(3, 0, 1, 2, 4).reshape(4, side, side, 64)


def test_convolution_and_pooling_equal_the_vendors_output(vendor_streams: Path, tmp_path: Path) -> None:
    found = emulated(tmp_path, vendor_streams, "conv1_pool1_fused", 56)
    with np.load(vendor_streams / "conv1_pool1_golden.npz") as golden:
        expected = golden["golden_nhwc"][FOUR]
    assert found.size == 802_816
    assert np.count_nonzero(found != expected) == 0


def test_the_convolution_alone_is_a_direct_convolution(vendor_streams: Path, tmp_path: Path) -> None:
    """Weights [group of 16 outputs, kernel width, kernel height, a row of 256 bytes], then biases, doubled."""
    found = emulated(tmp_path, vendor_streams, "conv1_7x7s2", 112)
    with np.load(vendor_streams / "conv1_pool1_golden.npz") as golden:
        parameters, images = golden["params_plain"], golden["input_nhwc"].astype(np.int64)
    o, c = np.mgrid[:16, :3]
    rows = parameters[: 4 * 49 * 256].reshape(4, 7, 7, 256)[..., c // 2 * 32 + o % 8 * 4 + c % 2 * 2 + o // 8]
    weights = rows.transpose(0, 3, 2, 1, 4).reshape(64, 7, 7, 3).astype(np.int64)
    bias = parameters[51200:51456].copy().view("<i4").astype(np.int64) >> 1
    for picture, image in enumerate(FOUR):
        sums = np.maximum(conv(images[image], weights, (2, 2), (3, 2, 3, 2)) + bias, 0)
        np.testing.assert_array_equal(found[picture], np.minimum(half_up(sums, SHIFT_CUT), 127))


@pytest.mark.parametrize(("name", "conv_ms"), [("resnet50_hand", 7.14), pytest.param("resnet50_compiled_plain", 7.36, marks=pytest.mark.nightly)])
def test_a_whole_network_reaches_its_end(vendor_streams: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, conv_ms: float) -> None:
    """Without a race or a deadlock; and the summary says what every unit did and waited for."""
    report = tmp_path / "run.json"
    assert main(["emulate", "dpuv3", str(vendor_streams / f"{name}.hex"), *BASES, "--json", str(report)]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "edge.load.conv" in printed.out
    data: dict[str, Any] = json.loads(report.read_text())
    units = {unit["name"]: unit for unit in data["units"]}
    assert units["conv"]["busy"] / 300_000 == pytest.approx(conv_ms, abs=0.005)
    assert sum(unit["instructions"] for unit in units.values()) == data["instructions"]
    assert data["ms"] > conv_ms
    assert all(unit["waits"] for unit in units.values())


def test_a_program_that_relies_on_time_is_not_called_free_of_races(vendor_streams: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = str(vendor_streams / "resnet50_compiled_pipelined.hex")
    assert main(["check", "dpuv3", name]) == 0
    printed = capsys.readouterr()
    assert printed.out.endswith(": no deadlock, every address in range, 318 races that the machine's file calls warnings\n")
    assert "299 more warnings of this kind" in printed.err
