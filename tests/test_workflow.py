"""The GitHub workflow runs every model on every machine that compiles networks, by tasks that exist."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from toolchain.spec.load import list_targets, load_machine
from toolchain.tasks.names import TASKS

ROOT = Path(__file__).resolve().parents[1]
WORKFLOW: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / "matrix.yml").read_text())
MATRIX = WORKFLOW["jobs"]["models"]["strategy"]["matrix"]
RUN = [step["run"] for step in WORKFLOW["jobs"]["models"]["steps"] if "run" in step]


def test_every_model_is_in_the_matrix() -> None:
    assert MATRIX["model"] == sorted(path.stem for path in (ROOT / "models").glob("*.yaml"))


def test_every_machine_that_compiles_networks_is_in_the_matrix() -> None:
    machines = [load_machine(name) for name in list_targets()]
    assert MATRIX["target"] == sorted(machine.name for machine in machines if machine.quantisation is not None or machine.takes_graphs)


@pytest.mark.parametrize("command", [line for text in RUN for line in text.splitlines() if "doit " in line])
def test_its_commands_name_tasks_that_exist(command: str) -> None:
    words = command.partition("doit ")[2].split(" target=")[0].split()
    assert words
    assert set(words) <= set(TASKS)
    assert re.findall(r"(\w+)=\$", command) == ["target", "model"]


def test_the_tests_run_as_they_do_before_a_change_lands() -> None:
    assert ".ci/run" in [step.get("run") for step in WORKFLOW["jobs"]["tests"]["steps"]]
