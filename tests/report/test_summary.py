"""What a build of digits costs and where its nodes went, from the files that the tasks leave."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.verify.builds import build
from toolchain.accuracy.closeness import Closeness, Inference, OutputCloseness
from toolchain.report.placement import NodePlaces, place_nodes
from toolchain.report.summary import Summary, Told, summarise_model
from toolchain.report.summary_text import operations_text, summary_data, summary_text
from toolchain.spec.search_policies import EFFORT
from toolchain.verify.verdict import Verified


def close(sqnr: float) -> OutputCloseness:
    return OutputCloseness(sqnr, 0, 0, sqnr, 0.0)


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    job, built, _ = build("dpuv3", "digits", tmp_path_factory.mktemp("builds"), effort=str(EFFORT))
    right = {"float": 0.998, "integer": 0.996, "emulator": 0.996}
    closeness = Closeness({"logits": close(31.25)}, "conv6", 28.9, {})
    inferred = Inference(4, "test", right, {}, True, 4, 10.0, 1.0, 2.0, 1000, closeness, "", "recorded")
    verified = Verified(True, 3, closeness, ())
    return summarise_model(built, job.folder / "graph", Told({"bundle": "here"}, inferred, verified))


def test_a_stand_in_is_the_first_thing_said(summary: Summary) -> None:
    assert "stand-in" not in summary_text(summary)
    told = replace(summary, stand_in="its widths are not public")
    assert summary_text(told).splitlines()[1].split(maxsplit=1) == ["stand-in", "its widths are not public"]
    assert summary_data(told)["stand_in"] == "its widths are not public"


def test_everything_but_the_conversions_is_on_the_machine(summary: Summary) -> None:
    placed = summary.placement
    assert (placed.node_percent, placed.mac_percent) == (100.0, 100.0)
    assert placed.conversions == 2
    assert {node.where for node in placed.nodes} <= {"machine", "folded"}
    assert summary.utilisation is not None
    assert summary.utilisation == pytest.approx(100 * placed.macs * 4 / summary.time.cycles / 8192)
    assert summary.frames_per_second == pytest.approx(4000 / summary.time.execute_ms)


def test_the_short_summary_says_it_all(summary: Summary) -> None:
    text = summary_text(summary)
    assert text.startswith("digits on dpuv3, 4 images a run\n")
    for line in ("100.0 % of ", "cycles at 300 MHz), ", "multiply-accumulates a cycle", "float 99.80 %, integer 99.60 %, emulator 99.60 %"):
        assert line in text
    assert "yes, 3 tensors compared with the integer network in ONNX Runtime" in text
    assert "integers against floating point: outputs 31.2 dB, worst 28.9 dB (conv6)" in text
    assert "warning" not in text
    assert "numbers of the machine's file" in text
    assert "assumed: CONV_DEPTH = 64" in text
    assert re.search(r"assumed: .*EDGE_DEPTH = 4, QUEUE_DEPTH = 48, .*layout activations GB/s = 5", text)
    assert text.rstrip().endswith("here")


def test_noise_at_an_output_is_a_warning(summary: Summary) -> None:
    text = summary_text(replace(summary, closeness=Closeness({"logits": close(0.0)}, "logits", 0.0, {})))
    assert re.search(r"^  warning +output logits is far from the float network, 0.0 dB", text, re.M)
    assert "floating point" not in summary_text(replace(summary, closeness=None))


def test_what_nobody_ran_is_not_claimed(summary: Summary) -> None:
    text = summary_text(replace(summary, exact=None, accuracy={}))
    assert "not verified yet" in text
    assert "accuracy" not in text
    assert "NO: 3 tensors" in summary_text(replace(summary, exact=False))
    assert "utilisation" not in summary_text(replace(summary, peak_macs=None))


def test_operations_add_up(summary: Summary) -> None:
    data = json.loads(json.dumps(summary_data(summary), allow_nan=False))
    lines = operations_text(summary.regions).splitlines()
    assert len(lines) == 1 + sum(len(region.operations) for region in summary.regions)
    assert "\x1b[1m" in operations_text(summary.regions, terminal=True)
    assert data["macs_on_machine"] == data["macs"] == sum(node.macs for node in summary.placement.nodes)
    assert sum(use["cycles"] for use in data["regions"][0]["operations"]) <= data["time"]["cycles"]


def test_borders_and_calibration_are_in_every_summary(summary: Summary) -> None:
    text, data = summary_text(summary), summary_data(summary)
    assert re.search(r"^  borders +2 conversions of \S+ \S+ in \S+ ms, 2 transfers of \S+ \S+ in \S+ ms$", text, re.M)
    assert re.search(r"^  calibrated +on recorded samples$", text, re.M)
    assert re.search(r"^  calibrated +on made-up samples", summary_text(replace(summary, calibration="made-up")), re.M)
    assert data["borders"]["regions"] == 1
    assert data["borders"]["conversions"] == {"count": 2, "ms": summary.costs.conversions.ms, "bytes": summary.costs.conversions.bytes}
    assert data["time"]["host_ms"] == pytest.approx(sum(row["convert_ms"] for row in data["costs"]["rows"]))


def test_shares_of_nothing_are_none() -> None:
    assert (NodePlaces((), 0).node_percent, NodePlaces((), 0).mac_percent) == (0.0, 0.0)


NETWORK = """\
model: {name: tiny, summary: for a test, sources: [here]}
inputs: {image: [1, 3, 8, 8]}
layers:
  - conv: {out: 8, kernel: 3, norm: true, act: relu}
  - globalpool
  - flatten
  - dense: {out: 4}
  - softmax
"""


def test_what_stays_on_the_host_has_a_reason(tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(NETWORK)
    job, built, _ = build("vta", str(tmp_path / "tiny.yaml"), tmp_path / "build", effort=str(EFFORT))
    placed = place_nodes(built.floating, built.partitioned, job.folder / "graph")
    assert [(node.operator, node.reason) for node in placed.on("host")] == [("Softmax", "the machine computes no such normalisation")]
    assert [(node.operator, node.reason) for node in placed.on("folded")] == [("BatchNormalization", "taken away by the pass fold_batch_norm")]
    assert all(node.reason for node in placed.nodes if node.where != "machine")
    assert all(node.region for node in placed.on("machine"))
    assert len({node.node for node in placed.nodes}) == len(placed.nodes)
    assert 0 < placed.node_percent < 100
