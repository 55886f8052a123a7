"""What the tasks answer: digits on both machines that compile networks, once."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.graph.onnx_builder import model, n, save
from tests.tasks.builds import ROOT, build_here, environment, stages_run
from toolchain import cli
from toolchain.tasks.variables import TASKS, VARIABLES


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where both machines were asked for everything; each process of a parallel run has its own."""
    made = tmp_path_factory.mktemp("commands")
    for target in ("vta", "dpuv3"):
        assert build_here(made, "report", f"target={target}", "model=digits")[0] == 0
    return made


@pytest.mark.drawn(1)
@pytest.mark.parametrize("target", ["vta", "dpuv3"])
def test_every_task_answers(target: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(folder)
    answers: dict[str, str] = {}
    for task in TASKS:
        assert cli.main([task, f"target={target}", "model=digits"]) == 0
        captured = capfd.readouterr()
        answers[task] = captured.out
        assert stages_run(captured.err) in ([task], ["summary"], [])
    assert f"digits on {target}" in answers["build"]
    assert "equal to the integers in ONNX Runtime, in every output" in answers["infer"]
    assert f"digits on {target}: exact; 12 tensors" in answers["verify"]
    assert "no race, no deadlock" in answers["verify"]
    assert "exact           yes" in answers["report"]
    assert "on the machine  " in answers["explain"]
    trace = json.loads((folder / "build" / target / "digits" / "report" / "region0.trace.json").read_text())
    assert {"compute" if target == "vta" else "conv"} <= {row["args"].get("name") for row in trace["traceEvents"] if row["ph"] == "M"}
    assert {"conv", "conv2"} <= {row["args"].get("layer") for row in trace["traceEvents"]}
    assert cli.main(["report", f"target={target}", "model=digits", "html=yes"]) == 0
    assert f"<title>digits on {target}, region0</title>" in (folder / "build" / target / "digits" / "report" / "region0.timeline.html").read_text()
    found = json.loads((folder / "build" / target / "digits" / "infer" / "infer.json").read_text())
    assert found["exact"]
    assert found["images"] == 600
    assert found["right"]["emulator"] == found["right"]["integer"]
    assert found["right"]["emulator"] >= max(0.97, found["right"]["float"] - 0.005)


def test_two_machines_share_what_no_machine_changes(folder: Path) -> None:
    """Both were built; the second needed no model and no calibration of its own."""
    assert sorted(path.name for path in (folder / "build").iterdir()) == [".machines", "dpuv3", "models", "vta"]
    assert {path.name for path in (folder / "build" / "models" / "digits").glob("*.json")} == {"onnx.receipt.json", "calibration.receipt.json"}


def test_an_operator_that_stays_on_the_host_is_an_error_where_that_is_not_wanted(tmp_path: Path) -> None:
    """A network ends with a softmax, which no machine here computes."""
    nodes = [n("Conv", ["x", "w"], ["a"], name="first"), n("Softmax", ["a"], ["y"], name="last", axis=1)]
    weights = np.ones((4, 3, 1, 1), np.float32)
    save(model(nodes, {"x": (1, 3, 8, 8)}, {"y": (1, 4, 8, 8)}, {"w": weights}), tmp_path)
    answer, told = build_here(tmp_path, "build", "target=vta", "model=net.onnx", "fallback=no", "place=all")
    assert answer == 1
    (line,) = (line for line in told.splitlines() if not line.endswith((" ...", " s")))
    assert "E0920" in line
    assert "Softmax" in line


def _doit(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-m", "doit", *words], cwd=folder, env=environment(), capture_output=True, text=True, check=False)


def test_doit_does_the_same(folder: Path) -> None:
    (folder / "dodo.py").write_text((ROOT / "dodo.py").read_text())
    listed = _doit(folder, "list")
    assert listed.returncode == 0, listed.stderr
    assert {line.split()[0] for line in listed.stdout.splitlines()} == set(TASKS)
    wrong = _doit(folder, "build", "tarrget=vta")
    assert (wrong.returncode, wrong.stderr) == (3, "ERROR: E1201 unknown variable 'tarrget'; did you mean 'target'?\n")
    nothing = _doit(folder, "-n", "2", "build", "target=vta", "model=digits")
    assert nothing.returncode == 0, nothing.stderr
    assert stages_run(nothing.stderr) in (["summary"], []), "the report before it added to what a summary tells"
    assert nothing.stdout.startswith("digits on vta")


def test_doit_cleans_informs_and_helps(folder: Path, tmp_path: Path) -> None:
    """`help`, `info` and `forget` are commands of ours where pyproject.toml says so, as in the repository. What was built before counts as built."""
    (tmp_path / "dodo.py").write_text((ROOT / "dodo.py").read_text())
    section = (ROOT / "pyproject.toml").read_text().partition("[tool.doit.plugins.command]")
    (tmp_path / "pyproject.toml").write_text("".join(section[1:]).partition("\n\n")[0])
    helped = _doit(tmp_path, "help", "build")
    assert all(f"  {name}=" in helped.stdout for name in VARIABLES)
    assert "E1202 which machine?" in _doit(tmp_path, "info").stderr
    assert "E1202 which machine?" in _doit(tmp_path, "clean").stderr
    words = ("target=vta", "model=digits")
    assert "graph digits for vta: to be made after onnx, calibration" in _doit(tmp_path, "info", *words).stdout
    for name in ("models", "vta"):
        shutil.copytree(folder / "build" / name, tmp_path / "build" / name, dirs_exist_ok=True)
    built = _doit(tmp_path, "build", *words)
    assert (built.returncode, stages_run(built.stderr)) in ((0, []), (0, ["summary"]))
    assert "onnx digits: up to date" in _doit(tmp_path, "info", *words).stdout
    assert "forgot build/vta/digits/graph" in _doit(tmp_path, "forget", *words).stdout
    assert "onnx digits: to be made" in _doit(tmp_path, "info", *words).stdout
    assert _doit(tmp_path, "forget", *words).stdout == "there is nothing to forget\n"
    assert "would remove build/vta/digits/graph" in _doit(tmp_path, "clean", "-n", *words).stderr
    assert (tmp_path / "build" / "vta" / "digits" / "graph").is_dir()
    (tmp_path / "build" / "vta" / "digits" / "studio.html").write_text("")
    assert "removed build/models/digits/onnx" in _doit(tmp_path, "clean", *words).stderr
    assert [path.name for path in (tmp_path / "build").iterdir()] == [".machines"]


def test_workers_build_as_one_process_does(folder: Path, tmp_path: Path) -> None:
    """doit hands tasks to processes of its own; what they leave is the same."""
    (tmp_path / "dodo.py").write_text((ROOT / "dodo.py").read_text())
    done = _doit(tmp_path, "-n", "2", "build", "target=vta", "model=digits")
    assert done.returncode == 0, done.stderr
    name = "build/vta/digits/bundle/digits.bundle"
    assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()
