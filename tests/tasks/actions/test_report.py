"""`explain` needs no bundle, and leaves a text, JSON, two tables and an annotated model; reports name files from the current folder."""

import csv
import io
import json
from pathlib import Path

import onnx
import pytest

from tests.report.networks import split
from toolchain import cli
from toolchain.report.explain import Explanation
from toolchain.spec.typed_json import from_json
from toolchain.tasks.actions.report import artefacts_of
from toolchain.tasks.plan import make_plan


def test_it_answers_before_anything_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    split(tmp_path / "split.onnx")
    assert cli.main(["explain", "target=vta", "model=split.onnx", "place=all"]) == 0
    told = capfd.readouterr()
    folder = tmp_path / "build" / "vta" / "split@place-all"
    assert told.out.rstrip().endswith((folder / "explain" / "explain.txt").read_text().rstrip())
    assert not (folder / "bundle").exists()
    found = from_json(Explanation, json.loads((folder / "explain" / "explain.json").read_text()))
    rows = list(csv.DictReader(io.StringIO((folder / "explain" / "explain.csv").read_text())))
    assert [row["name"] for row in rows] == [row.name for row in found.costs.rows]
    nodes = list(csv.DictReader(io.StringIO((folder / "explain" / "nodes.csv").read_text())))
    assert [node["node"] for node in nodes] == ["first", "active", "gate", "second"]
    drawn = {node.name: node for node in onnx.load(folder / "explain" / "explain.onnx").graph.node}
    assert {entry.value for name in ("first", "second") for entry in drawn[name].metadata_props if entry.key == "tilewright.where"} == {"machine"}
    assert "made-up samples" in found.calibration


def test_samples_without_labels_read_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    split(tmp_path / "split.onnx")
    assert cli.main(["infer", "target=vta", "model=split.onnx", "place=all"]) == 0
    lines = capfd.readouterr().out
    assert "  task       not measured: the model's file names no task, and its samples have no labels\n" in lines
    assert "  exact      the emulator is equal to the integers in ONNX Runtime, in every output\n" in lines
    assert "  calibrated on made-up samples" in lines
    assert "without labels" not in lines
    assert lines.count("made up") + lines.count("made-up") == 2


def test_paths_are_those_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever gave the folder of builds, and however: explorations give all of it."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    words = {"target": "vta", "model": "digits"}
    (below,), (beside,) = (make_plan(words, root).jobs for root in (Path("build").absolute(), tmp_path / "build"))
    assert artefacts_of(below) == artefacts_of(make_plan(words, Path("build")).jobs[0])
    assert artefacts_of(below)["programs"] == "build/vta/digits/bundle"
    assert artefacts_of(beside)["programs"] == str(tmp_path / "build" / "vta" / "digits" / "bundle")
