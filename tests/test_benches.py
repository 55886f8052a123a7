"""What the benches of real networks say of rows, and what they share; the benches themselves take minutes to hours."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.builds import left, markdown

ROOT = Path(__file__).resolve().parents[1]
FIGURES = {"integers": {"share": 0.75, "text": "9 of 12 texts equal"}, "emulator": {"share": 0.75, "text": "9 of 12 texts equal"},
           "equal": {"share": 1.0, "text": "same"}, "tensor": {"share": None, "text": "quantised already"}}  # fmt: skip
REAL = {"model": "magika", "machine": "vta", "pictures": 12, "nodes": 30.0, "macs": 84.7, "regions": 4, "ms": 2.5, "total_ms": 57.0, "exact": True,
        "wrong": "", "figures": FIGURES, "seconds": {}}  # fmt: skip
EXPORT = {"name": "alexnet", "form": "legacy", "machine": "dpuv3", "nodes": 20, "node_percent": 95.0, "macs": 7e8, "mac_percent": 100.0, "regions": 1,
          "ms": 1.0, "total_ms": 2.0, "exact": True, "wrong": "", "seconds": 1.0}  # fmt: skip
FORM = {"model": "digits", "form": "QDQ u8/s8 symmetric per tensor", "file": 24.0, "regions": 3, "loss": 30.0, "stated": 30.0, "equal": False,
        "exact": True, "wrong": "", "refused": False}  # fmt: skip


def table(script: str, row: dict[str, object], name: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """What a bench prints of one row that it knows."""
    (folder / "rows").mkdir()
    (folder / "rows" / name).write_text(json.dumps(row))
    command = [sys.executable, str(ROOT / "bench" / script), "--table", "--folder", str(folder), *words]
    return subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False)


def test_a_real_network(tmp_path: Path) -> None:
    done = table("real", REAL, "vta-magika.json", tmp_path, "--model", "magika", "--target", "vta")
    assert done.returncode == 0, done.stderr
    assert [cell.strip() for cell in done.stdout.splitlines()[2].split("|")[1:-1]] == [
        "magika", "vta", "30.0", "84.7", "4", "2.50", "57.00", "yes", "75.0", "75.0", "-", "-",
    ]  # fmt: skip
    assert "- magika on vta, 12 samples: integers: 9 of 12 texts equal; tensor: quantised already" in done.stdout
    assert "1 of 1 exact" in done.stdout


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"exact": False, "wrong": "verify: E1204 it differs"}, "verify: E1204 it differs"),
        ({"figures": FIGURES | {"equal": {"share": 0.0, "text": ""}}}, "0 of 1 exact"),
        ({"figures": {}, "wrong": "build: E0904 open"}, "build: E0904 open"),
    ],
)
def test_a_real_network_that_fails(changes: dict[str, object], told: str, tmp_path: Path) -> None:
    done = table("real", REAL | changes, "vta-magika.json", tmp_path, "--model", "magika", "--target", "vta")
    assert done.returncode == 1
    assert told in done.stdout


@pytest.mark.parametrize(("changes", "code"), [({}, 1), ({"exact": False}, 1), ({"wrong": "build: E0904 open"}, 1)])
def test_an_export(changes: dict[str, object], code: int, tmp_path: Path) -> None:
    done = table("torchvision", EXPORT | changes, "dpuv3-alexnet-legacy.json", tmp_path, "--only", "alexnet")
    assert done.returncode == code  # the other export is missing
    assert f"{int(not changes)} of 2 import, run and are exact on dpuv3" in done.stdout


@pytest.mark.parametrize(
    ("changes", "code"),
    [({}, 0), ({"stated": None}, 1), ({"stated": 40.0}, 1), ({"exact": False}, 1), ({"equal": True, "loss": None, "stated": None}, 0)],
)
def test_a_form_of_the_quantiser(changes: dict[str, object], code: int, tmp_path: Path) -> None:
    name = "dpuv3-digits-QDQ-u8-s8-symmetric-per-tensor.json"
    done = table("quantiser_forms", FORM | changes, name, tmp_path, "--model", "digits")
    assert done.returncode == code, done.stdout
    assert f"{1 - code} of 1 without a silent difference" in done.stdout


def test_tables_line_up() -> None:
    assert markdown(("name", "n"), [("long name", "1"), ("b", "22")], (0,)) == [
        "| name      |  n |",
        "|-----------|---:|",
        "| long name |  1 |",
        "| b         | 22 |",
    ]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert left(tmp_path, "summary", "summary.json") is None


def test_streaming(tmp_path: Path) -> None:
    """A network that fits on chip: least and groups move the same activations, and no group is made."""
    command = [sys.executable, str(ROOT / "bench" / "streaming"), "--model", "digits", "--target", "dpuv3", "--folder", str(tmp_path)]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()[2:]]
    assert [row[2] for row in rows] == ["DRAM", "apart", "groups", "least"]
    ms = [float(row[3]) for row in rows]
    assert ms[3] <= ms[2] == ms[1] <= ms[0]
    assert [row[8] for row in rows[:3]] == ["0", "0", "0"]
