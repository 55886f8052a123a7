"""Several machines in one plan: their order, their parameters, and names that clash; which lengths a build has, and the jobs that they make.

What info says of a stage before, after and between builds. Variables that do not go with the states of a model are refused before anything starts.
"""

from pathlib import Path

import pytest

from tests.lengths_network import built, encoder
from tests.steps_network import YAML, written
from tests.tasks.builds import build_here
from toolchain.spec.errors import UserError
from toolchain.tasks.folders import clean_plan
from toolchain.tasks.plan import Plan, declared_lengths, info_text, make_plan, state_text, states_span
from toolchain.tasks.stage import STAGES


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


OF_LENGTHS = "model: {name: m, summary: a test}\nonnx: m.onnx\nlengths: {sequence: SIZES}\n"


def sized_plan(tmp_path: Path, sizes: str = "[8, 16]", **more: str) -> Plan:
    encoder(tmp_path / "m.onnx")
    (tmp_path / "m.yaml").write_text(OF_LENGTHS.replace("SIZES", sizes))
    return make_plan({"target": "dpuv3", "model": str(tmp_path / "m.yaml"), **more}, tmp_path / "build")


def test_a_job_for_each_length_quantised_as_the_largest(tmp_path: Path) -> None:
    found = sized_plan(tmp_path)
    assert [dict(job.variables.dims) for job in found.jobs] == [{"sequence": 8}, {"sequence": 16}]
    assert [job.like and job.like.at for job in found.jobs] == ["sequence 16", None]
    small, large = found.steps
    assert small["calibration"] is large["calibration"]
    assert large["graph"] in small["graph"].before
    assert large["graph"] in small["bundle"].chain
    assert {step.job.at for step in found.joined[0].before} == {"sequence 8", "sequence 16"}
    assert len({job.folder for job in found.jobs} | {found.joined[0].job.folder}) == 3


def test_variables_go_before_the_file(tmp_path: Path) -> None:
    assert [job.at for job in sized_plan(tmp_path, lengths="sequence:2,3,4").jobs] == ["sequence 2", "sequence 3", "sequence 4"]
    alone = sized_plan(tmp_path, dim="sequence:8")
    assert [job.at for job in alone.jobs] == [""]
    assert alone.joined == ()


def test_two_dimensions_have_every_combination(tmp_path: Path) -> None:
    found = sized_plan(tmp_path, lengths="b:1,2,a:3,4,5").jobs
    assert [job.at for job in found] == ["a 3, b 1", "a 3, b 2", "a 4, b 1", "a 4, b 2", "a 5, b 1", "a 5, b 2"]


@pytest.mark.parametrize(
    ("sizes", "more", "message"),
    [
        ("[8, 8]", {}, "m.yaml:3:10: E1202 the sizes of 'sequence' in 'lengths' do not increase from 1 on: 8,8; write sequence:8"),
        ("[8]", {}, "m.yaml:3:21: E0116 this must have at least 2 entries"),
        ("[0, 8]", {}, "m.yaml:3:22: E0116 0 is not allowed here"),
        ("[8, 16]", {"lengths": "sequence:4,8", "dim": "sequence:4"}, "E1202 'sequence' is in 'dim' and in 'lengths'; leave it out of one"),
        ("[8, 16]", {"target": "dpuv3,vta"}, "E1202 several lengths are for one machine, and 'target' names 2"),
    ],
)
def test_lengths_that_cannot_be(sizes: str, more: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as raised:
        sized_plan(tmp_path, sizes, **more)
    assert message in str(raised.value)


def test_models_without_lengths(tmp_path: Path) -> None:
    assert declared_lengths(encoder(tmp_path / "m.onnx")) == ()
    (tmp_path / "m.yaml").write_text(OF_LENGTHS.replace("lengths: {sequence: SIZES}", ""))
    assert declared_lengths(tmp_path / "m.yaml") == ()


def test_each_step_is_there_once_so_that_a_build_can_be_cleaned(tmp_path: Path) -> None:
    found = sized_plan(tmp_path)
    titles = [step.title for step in found.every]
    assert len({*titles}) == len(titles) == 2 * len(STAGES) - 1 + len(found.joined)
    for step in found.every:
        step.folder.mkdir(parents=True)
    assert {*clean_plan(found)} == {step.folder for step in found.every}
    assert clean_plan(found) == []


def test_info_tells_all_lengths_and_the_file_of_all() -> None:
    text = info_text(built().plan)
    assert "graph encoder sequence 8 for dpuv3: up to date" in text
    assert "lengths encoder for dpuv3: up to date" in text


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"target": "vta,dpuv3"}, "steps.yaml:3:1: E0816 several machines in 'target' do not go with the states of 'steps'"),
        ({"lengths": "a:1,2"}, "steps.yaml:3:1: E0816 'lengths' does not go with the states of 'steps'"),
        ({"beyond": "host"}, "E0816 'beyond' does not go with"),
        ({"batch": "4"}, "E0816 'batch' does not go with"),
        ({"images": "1"}, "E0816 'images' does not go with"),
    ],
)
def test_variables_beside_states(tmp_path: Path, given: dict[str, str], message: str) -> None:
    with pytest.raises(UserError) as raised:
        make_plan({"target": "vta", "model": str(written(tmp_path)), **given}, tmp_path / "build")
    assert message in str(raised.value)


def test_the_place_of_states_in_a_file(tmp_path: Path) -> None:
    span = states_span(written(tmp_path))
    assert span is not None
    assert (span.line, span.column) == (3, 1)
    assert states_span(tmp_path / "steps.onnx") is None
    assert states_span(written(tmp_path, YAML[: YAML.index("state:")] + "calibration: {seeded: 3} # state: none\n")) is None
