"""Lines of a summary made by hand; those of a real build are in test_summary.py."""

import json
from dataclasses import replace

import pytest

from toolchain.accuracy.closeness import Closeness, OutputCloseness
from toolchain.graph.quantisation.ranges import MADE_UP
from toolchain.report.costs import CostTable, Crossings
from toolchain.report.placement import HOST, MACHINE, NodePlaces, Placed
from toolchain.report.region_use import MemoryRoom, OperationUse, RegionUse
from toolchain.report.summary import MachineShare, StateTraffic, Summary
from toolchain.report.summary_text import is_judged, operations_text, summary_data, summary_rows, summary_text, warnings_of
from toolchain.runtime.timing import Modelled

USE = OperationUse("conv1", "conv2d", 1, 500.0, "conv", 400.0, 102_400, 2048)
ROOMS = (MemoryRoom("ddr", False, 0, 0, 3000, 500), MemoryRoom("fm", True, 2000, 4000, 0, 0))
REGION = RegionUse("region0", "toy", 1, 1, 500.0, 400.0, "conv", (USE,), ROOMS, (), 1, 256)
NODES = NodePlaces(
    (Placed("conv1", "Conv", MACHINE, "conv1", "conv2d", "region0", "", 102_400, 0), Placed("gate", "Mul", HOST, "", "", "", "", 0, 0)), 2
)
COSTS = CostTable(1, True, (), (), Crossings(2, 0.5, 4096), Crossings(2, 0.25, 1024), Crossings(1, 0.1, 0))
TIME = Modelled(1, 500.0, 0.005, 1.0, 0.25, 0.1)
SUMMARY = Summary(
    "net", "toy", 1, 100_000, 256, NODES, "recorded", (REGION,), TIME, COSTS, (), (), {}, None, 0, None, {"bundle": "here"}
)  # fmt: skip


def rows(summary: Summary) -> dict[str, str]:
    return dict(summary_rows(summary))


def test_each_fact_is_a_line() -> None:
    found = rows(SUMMARY)
    assert found["on the machine"] == "1 of 2 nodes (50.0 %), 100.0 % of 102 kMAC; 1 region, 1 operation"
    assert found["time"] == "0.005 ms on the machine (500 cycles at 100 MHz), 200,000.0 frames/s"
    assert found["with the host"] == "1.355 ms: host 1.000 ms, transfer 0.250 ms, launch 0.100 ms"
    assert found["borders"] == "2 conversions of 4.1 kB in 0.5 ms, 2 transfers of 1.02 kB in 0.25 ms"
    assert found["utilisation"].startswith("80.0 % of 256 multiply-accumulates a cycle; no schedule of these instructions uses more than 100.0 %")
    assert (found["moved"], found["on-chip peak"]) == ("ddr 3 kB read, 500 B written", "fm 2 kB of 4 kB")
    assert found["exact"] == "not verified yet: `verify` compares every tensor"
    assert list(found)[-1] == "bundle"
    lines = summary_text(SUMMARY).splitlines()
    assert lines[0] == "net on toy, one image a run"
    assert len({line.index(text) for line, text in zip(lines[1:], found.values(), strict=True)}) == 1


def test_sub_graphs_are_told_by_their_images_and_streams() -> None:
    early = replace(REGION, region="a", images=8, streams=32, available=32, copies=8, runs=4)
    found = rows(
        replace(
            SUMMARY,
            regions=(early, replace(early, region="b", images=32, copies=32, runs=1), replace(early, region="c", images=32, copies=32, runs=1)),
        )
    )
    text = "1 operation for 8 at once on 4 streams each, 4 runs: 2,000 cycles; 2 operations for 32 at once on 1 stream each, 1 run: 1,000 cycles"
    assert found["sub-graphs"] == text
    assert "streams" not in found
    assert "sub-graphs" not in rows(replace(SUMMARY, regions=(REGION, replace(REGION, runs=4))))


def test_streams_are_told_with_the_images_of_each_copy() -> None:
    """Images may stand behind each other as rows in the tensors of a copy."""
    for images, told in ((8, "an image on every 4"), (32, "4 images on every 4")):
        region = replace(REGION, images=images, streams=32, available=32, copies=8)
        assert rows(replace(SUMMARY, regions=(region,)))["streams"].startswith(f"32 of 32, {told}: ")


def test_a_peak_that_contradicts_the_cycles_is_no_share() -> None:
    assert rows(replace(SUMMARY, peak_macs=100))["utilisation"] == (
        "204.8 multiply-accumulates a cycle, more than the 100 that the machine's file declares"
    )
    assert "utilisation" not in rows(replace(SUMMARY, peak_macs=None))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"exact": True, "tensors": 3}, "yes, 3 tensors compared with the integer network in ONNX Runtime"),
        ({"exact": False, "tensors": 3}, "NO: 3 tensors compared with the integer network in ONNX Runtime, see what `verify` says"),
        ({"exact": True, "tensors": 3, "allowed": "2 ulp"}, "no, but as near as the machine's file asks: 3 tensors compared with"),
        ({"regions": ()}, "nothing to compare: no node runs on the machine"),
    ],
)
def test_a_verdict_is_not_softened(changes: dict[str, object], text: str) -> None:
    changed: Summary = replace(SUMMARY, **changes)  # type: ignore[arg-type]
    assert rows(changed)["exact"].startswith(text)


def test_several_machines_have_a_line_each() -> None:
    shares = (MachineShare("toy", 1, 500.0, 100_000, 0.005, 102_400, 256), MachineShare("other", 2, 0.0, 1000, 0.0, 0, None))
    found = rows(replace(SUMMARY, shares=shares))
    assert found["toy"] == "0.005 ms in 1 region, 500 cycles at 100 MHz, 80.0 % of 256 multiply-accumulates a cycle"
    assert found["other"] == "0.000 ms in 2 regions, 0 cycles at 1 MHz"
    assert "on the machines" in found


def test_noise_is_a_warning_only_where_samples_and_weights_are_real() -> None:
    far = Closeness({"y": OutputCloseness(0.0, 0, 0, 0.0, 0.0)}, "y", 0.0, {})
    noisy = replace(SUMMARY, closeness=far)
    assert is_judged(noisy)
    assert any("output y is far from the float network" in text for text in warnings_of(noisy))
    for unjudged in (replace(noisy, calibration=MADE_UP), replace(noisy, stand_in="its weights are made up")):
        assert not list(warnings_of(unjudged))


def test_operations_are_a_table_and_data_is_json() -> None:
    head, line = operations_text([REGION]).splitlines()
    assert head.split()[:4] == ["region", "operation", "computes", "instructions"]
    assert line.split() == ["region0", "conv1", "conv2d", "1", "500", "conv", "400", "102", "k", "100.0", "2.05", "k"]
    data = json.loads(json.dumps(summary_data(SUMMARY), allow_nan=False))
    assert (data["cycles"], data["total_ms"], data["utilisation"]) == (500.0, pytest.approx(1.355), 80.0)
    assert data["borders"]["conversions"] == {"count": 2, "ms": 0.5, "bytes": 4096}
    assert data["memories"][1]["memory"] == "fm"
    assert "placement" not in data


STEP = Modelled(1, 500.0, 0.005, 0.25, 0.125, 0.1)


def test_states_and_the_time_of_a_step_have_a_row_each() -> None:
    found = rows(replace(SUMMARY, states=StateTraffic(3, 2, 1032, 1024, 0, STEP)))
    assert found["states"] == "2 of 3 stay on the device, 1.02 kB, 1 is on the host, 8 B; a step moves 0 B of them between host and device"
    assert found["a step"] == "0.480 ms: host 0.250 ms, transfer 0.125 ms, launch 0.100 ms; between others, with states where they are"
    assert json.loads(json.dumps(summary_data(replace(SUMMARY, states=StateTraffic(3, 2, 1032, 1024, 0, STEP)))))["states"]["stay"] == 1024


def test_a_step_that_saves_nothing_has_no_time_of_its_own() -> None:
    found = rows(replace(SUMMARY, states=StateTraffic(2, 0, 64, 0, 128, TIME)))
    assert found["states"] == "2 are on the host, 64 B; a step moves 128 B of them between host and device"
    assert "a step" not in found
    assert "states" not in summary_data(SUMMARY)
