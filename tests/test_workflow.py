"""The GitHub workflow runs every model on every machine that compiles networks, by tasks that exist; the one that users copy runs theirs."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.console_blocks import files_of
from toolchain.spec.load import list_targets, load_machine
from toolchain.tasks.variables import TASKS

ROOT = Path(__file__).resolve().parents[1]
WORKFLOW: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / "matrix.yml").read_text())
MATRIX = WORKFLOW["jobs"]["models"]["strategy"]["matrix"]
RUN = [step["run"] for step in WORKFLOW["jobs"]["models"]["steps"] if "run" in step]


MOST_JOBS = 256
"""GitHub's limit for one matrix."""


def test_every_model_is_in_the_matrix_once() -> None:
    assert sorted(name for group in MATRIX["models"] for name in group.split()) == sorted(path.stem for path in (ROOT / "models").glob("*.yaml"))


def test_github_starts_all_jobs() -> None:
    assert len(MATRIX["target"]) * len(MATRIX["models"]) <= MOST_JOBS


def test_every_machine_that_compiles_networks_is_in_the_matrix() -> None:
    machines = [load_machine(name) for name in list_targets()]
    assert MATRIX["target"] == sorted(machine.name for machine in machines if machine.quantisation is not None or machine.takes_graphs)


@pytest.mark.parametrize("command", [line for text in RUN for line in text.splitlines() if "doit " in line])
def test_its_commands_name_tasks_that_exist(command: str) -> None:
    words = command.partition("doit ")[2].split(" target=")[0].split()
    assert words
    assert set(words) <= set(TASKS)
    assert re.findall(r"\b(target|model)=\$", command) == ["target", "model"]


def test_the_tests_run_as_they_do_before_a_change_lands() -> None:
    assert ".ci/run" in [step.get("run") for step in WORKFLOW["jobs"]["tests"]["steps"]]


def test_every_night_each_law_draws_more_than_it_states() -> None:
    nightly: dict[Any, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / "nightly.yml").read_text())
    assert [*nightly[True]["schedule"][0]] == ["cron"]  # `on` is a truth to YAML
    laws = nightly["jobs"]["laws"]
    assert float(laws["env"]["TILEWRIGHT_EXAMPLES"]) > 1
    assert ".ci/run" in [step.get("run") for step in laws["steps"]]


def test_the_workflow_that_users_copy_runs_their_machine_and_model(tmp_path: Path) -> None:
    """Its steps in a clean folder, but for the installation and the check of the kernels, which the machine's own page runs."""
    page = (ROOT / "docs" / "continuous-integration.md").read_text()
    workflow: dict[str, Any] = yaml.safe_load(page.partition("```yaml .github/workflows/accelerator.yml\n")[2].partition("```")[0])
    for name, text in files_of((ROOT / "docs" / "your-first-machine.md").read_text()).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "networks").mkdir()
    shutil.copy(ROOT / "models" / "digits" / "digits.onnx", tmp_path / "networks" / "first.onnx")
    steps = [step["run"] for step in workflow["jobs"]["build"]["steps"] if "run" in step]
    variables = os.environ | workflow["env"] | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "MACHINE": "toy"}
    for step in (step for step in steps if "pip install" not in step and "kernel check" not in step):
        done = subprocess.run(
            ["bash", "-e", "-c", step],
            cwd=tmp_path,
            env=variables,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, f"{step}\n{done.stderr.decode()}"
    assert (tmp_path / "build" / "toy" / "first@networks" / "bundle" / "first.bundle").is_file()
