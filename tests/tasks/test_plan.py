"""Several machines in one plan: their order, their parameters, and names that clash.

What info says of a stage before, after and between builds.
"""

from pathlib import Path

import pytest

from tests.tasks.builds import build_here
from toolchain.spec.errors import UserError
from toolchain.tasks.plan import Plan, info_text, make_plan, state_text


def plan(root: Path, target: str, **more: str) -> Plan:
    return make_plan({"target": target, "model": "digits", **more}, root)


def test_several_machines_have_a_folder_in_their_order(tmp_path: Path) -> None:
    (job,) = plan(tmp_path, "vta,dpuv3").jobs
    assert job.folder == tmp_path / "vta+dpuv3" / "digits"
    assert [target.name for target in job.targets] == ["vta", "dpuv3"]


def test_one_machine_has_the_parts_that_it_always_had(tmp_path: Path) -> None:
    one, two = (plan(tmp_path, target).steps[0]["graph"].parts() for target in ("vta", "vta,dpuv3"))
    assert "section encoding" in one
    assert {"section encoding of vta", "section encoding of dpuv3", "section kernels of dpuv3"} <= two.keys()
    assert {name for name in one if not name.startswith("section")} == {name for name in two if not name.startswith("section")}


def test_parameters_name_their_machine(tmp_path: Path) -> None:
    (job,) = plan(tmp_path, "dpuv3,vta", params="vta.LOG_ACC_BUFF:16").jobs
    assert [target.params for target in job.targets] == [(), (("LOG_ACC_BUFF", "16"),)]
    with pytest.raises(UserError, match=r"E1202 'LOG_ACC_BUFF' in 'params' names no machine of 'target'; for example params=dpuv3\.LOG_ACC"):
        plan(tmp_path, "dpuv3,vta", params="LOG_ACC_BUFF:16")


def test_kernels_that_are_left_out_are_another_machine(tmp_path: Path) -> None:
    plain, fewer = (plan(tmp_path, "vta", **more).jobs[0] for more in ({}, {"without": "squares+add_both"}))
    assert fewer.folder == tmp_path / "vta@without-add_both+squares" / "digits"
    assert fewer.home("onnx") == plain.home("onnx")
    (job,) = plan(tmp_path, "dpuv3,vta", without="vta.squares").jobs
    assert [target.without for target in job.targets] == [(), ("squares",)]
    with pytest.raises(UserError, match=r"E1202 'squares' in 'without' names no machine of 'target'; for example without=dpuv3\.squares"):
        plan(tmp_path, "dpuv3,vta", without="squares")
    parts = [plan(tmp_path, "vta", **more).steps[0]["graph"].parts() for more in ({}, {"without": "none"}, {"without": "squares"})]
    assert parts[0] == parts[1]
    assert parts[2] == parts[0] | {"kernels left out": "squares"}


@pytest.mark.parametrize(
    ("given", "batch"),
    [
        ({"objective": "latency"}, 1),
        ({"objective": "latency", "batch": "1"}, 1),
        ({"objective": "throughput", "batch": "5"}, 5),
        ({"objective": "throughput"}, 3),
        ({}, 0),
    ],
)
def test_an_objective_is_a_batch(given: dict[str, str], batch: int, tmp_path: Path) -> None:
    """The folder and the stages are those of the batch, so that a build is not made twice."""
    named = {"batch": str(batch)} if batch else {}
    own, same = (plan(tmp_path, "dnnvm:zu9", **more) for more in (given, named))
    assert own.jobs[0].variables.batch == batch
    assert own.jobs[0].folder == same.jobs[0].folder
    assert [step.receipt_path for step in own.every] == [step.receipt_path for step in same.every]
    assert own.steps[0]["schedule"].parts() == same.steps[0]["schedule"].parts()


def test_a_machine_of_images_in_lockstep_fills_them(tmp_path: Path) -> None:
    assert plan(tmp_path, "dpuv3", objective="throughput").jobs[0].variables.batch == 4


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"objective": "latency", "batch": "8"}, "objective=latency is about one sample, and batch=8"),
        ({"objective": "latency", "streams": "2"}, "objective=latency decides what 'streams' says; leave 'streams=' or 'objective=' out"),
        ({"objective": "throughput", "batch": "4", "images": "2"}, "objective=throughput decides what 'images' says"),
        ({"objective": "speed"}, "objective"),
    ],
)
def test_an_objective_that_others_contradict(more: dict[str, str], words: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"E1202.*{words}"):
        plan(tmp_path, "dnnvm:zu9", **more)


def test_a_batch_has_a_limit_that_is_told_at_once(tmp_path: Path) -> None:
    assert plan(tmp_path, "stcp920", batch="4096").jobs[0].variables.batch == 4096
    with pytest.raises(UserError, match=r"E1202 batch=100000 is more than 4096: .*; at most batch=4096"):
        plan(tmp_path, "stcp920", batch="100000")


def test_two_forms_of_one_machine_clash(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="E1207 'vta' and 'vta:ultra96' in 'target' are both the machine 'vta'"):
        plan(tmp_path, "vta,vta:ultra96")


GIVEN = {"target": "vta", "model": "digits"}


def test_every_stage_with_what_it_depends_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fresh = info_text(make_plan(GIVEN))
    assert fresh.startswith("onnx digits: to be made: first time\n")
    assert "\nbundle digits for vta: to be made after onnx, calibration, graph, schedule\n" in fresh
    assert build_here(tmp_path)[0] == 0
    states = {name: state_text(step) for name, step in make_plan(GIVEN).steps[0].items()}
    current = [name for name, state in states.items() if state == "up to date"]
    assert current == ["onnx", "calibration", "graph", "accuracy", "schedule", "bundle", "summary"]
    text = info_text(make_plan(GIVEN))
    assert "digits/digits.npz" in text
    assert "build/vta/digits/bundle, 3 files" in text
    others = {name: state_text(step) for name, step in make_plan(GIVEN | {"fallback": "no"}).steps[0].items()}
    assert others["graph"] == "to be made: option fallback"
    assert others["bundle"] == "to be made after graph"
