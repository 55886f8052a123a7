"""Deployments: the machines, links and rules of one system."""

from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import pytest

from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine
from toolchain.tasks.actions.paths import machines_of
from toolchain.tasks.deployment import deployed, deployment_of, find_deployment
from toolchain.tasks.plan import make_plan
from toolchain.tasks.stage import Job

BOARD = """\
deploy: {name: board, summary: two machines}
host:
  gmac_per_s: {default: {value: 40, source: a guess, assumed: true}}
  gb_per_s: {value: 20, source: a guess, assumed: true}
machines:
  - target: dpuv3
    link:
      launch_us: {value: 5, source: measured}
      transfer_us: {value: 4, source: measured}
      transfer_gb_per_s: {value: 13, source: measured}
  - {target: vta, params: {LOG_ACC_BUFF: 16}}
rules:
  - {nodes: [head*], on: host, because: the host reads it}
  - {nodes: [Conv], on: vta, because: a trial}
"""


def planned(folder: Path, text: str = BOARD, **more: str) -> Job:
    path = folder / "board.yaml"
    path.write_text(text)
    with chdir(folder):
        return make_plan({"target": str(path), "model": "digits", **more}, folder / "build").jobs[0]


def test_its_machines_are_the_build_s(tmp_path: Path) -> None:
    job = planned(tmp_path)
    assert [(target.name, target.params) for target in job.targets] == [("dpuv3", ()), ("vta", (("LOG_ACC_BUFF", "16"),))]
    with chdir(tmp_path):
        assert job.folder == tmp_path / "build" / "board" / "digits"
    changed = planned(tmp_path, params="vta.LOG_ACC_BUFF:15")
    assert changed.targets[1].params == (("LOG_ACC_BUFF", "15"),)
    with chdir(tmp_path):
        assert changed.folder == tmp_path / "build" / "board+vta.LOG_ACC_BUFF-15" / "digits"


def test_costs_are_the_system_s_and_else_the_machine_s(tmp_path: Path) -> None:
    first, second = (machine.host for machine in machines_of(planned(tmp_path)))
    own = load_machine("vta").host
    assert first
    assert second
    assert own
    assert first.gb_per_s == second.gb_per_s != own.gb_per_s
    assert (first.launch_us.value, first.transfer_us.value, first.transfer_gb_per_s.value) == (5, 4, 13)
    assert second.step_us == own.step_us is not None
    assert (second.launch_us, second.transfer_us, second.transfer_gb_per_s) == (own.launch_us, own.transfer_us, own.transfer_gb_per_s)


def test_a_machine_without_costs_needs_both_halves() -> None:
    machine = replace(load_machine("dpuv3"), host=None)
    board = deployment_of(BOARD, "board.yaml")
    assert deployed(machine, board, 0).host
    with pytest.raises(UserError, match="E1210 the 'link' of machine 'dpuv3' is in neither the deployment nor the machine's file"):
        deployed(machine, board, 1)
    with pytest.raises(UserError, match="E1210 'host' is in neither"):
        deployed(machine, replace(board, host=None), 0)
    assert deployed(machine, replace(board, host=None), 1) is machine


def test_a_machine_s_file_is_looked_for_beside_it(tmp_path: Path) -> None:
    board = deployment_of(BOARD.replace("target: dpuv3", "target: mine/own.yaml:small"), str(tmp_path / "board.yaml"))
    assert board.members[0].given == f"{tmp_path / 'mine/own.yaml'}:small"


def test_files_of_machines_and_names_are_none(tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text("target: {name: deploy}\n")
    assert find_deployment("vta") is find_deployment(str(tmp_path / "other.yaml")) is find_deployment(str(tmp_path / "no.yaml")) is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("on: vta", "on: vtb", r"E1209 there is no machine 'vtb' in this deployment; did you mean 'vta'"),
        ("rules:", "rule:", "E0108 unknown key 'rule'"),
        ("because: a trial", "why: a trial", "E0109"),
        ("{value: 4, ", "{value: 0, ", "E0116"),
        ("target: vta, params: {LOG_ACC_BUFF: 16}", "target: dpuv3", "E1207 'dpuv3' and 'dpuv3'"),
        ("LOG_ACC_BUFF", "LOG_ACC_BUF", r"board.yaml:11:14: E0104 unknown parameter 'LOG_ACC_BUF'"),
        ("target: dpuv3", "target: no_such", r"board.yaml:6:13: E0001 unknown target 'no_such'"),
    ],
)
def test_mistakes_have_a_place(old: str, new: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        planned(tmp_path, BOARD.replace(old, new))


def test_machines_beside_it_are_refused(tmp_path: Path) -> None:
    (tmp_path / "board.yaml").write_text(BOARD)
    with pytest.raises(UserError, match=r"E1202 '.*board.yaml' in 'target' is a deployment, which names all machines; write it alone"):
        make_plan({"target": f"vta,{tmp_path / 'board.yaml'}", "model": "digits"}, tmp_path / "build")


def test_any_change_of_the_file_is_a_change_of_the_build(tmp_path: Path) -> None:
    found = [planned(tmp_path, text).deployment for text in (BOARD, BOARD.replace("a trial", "a test"))]
    assert len({each.digest for each in found if each}) == 2
