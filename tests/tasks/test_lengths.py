"""Which lengths a build has, and the jobs that they make.

Variables that do not go with the states of a model are refused before anything starts.
"""

from pathlib import Path

import pytest

from tests.lengths_network import built, encoder
from tests.steps_network import YAML, written
from toolchain.spec.errors import UserError
from toolchain.tasks.folders import clean_plan
from toolchain.tasks.lengths import declared_lengths, states_span
from toolchain.tasks.plan import Plan, info_text, make_plan
from toolchain.tasks.stage import STAGES

OF_LENGTHS = "model: {name: m, summary: a test}\nonnx: m.onnx\nlengths: {sequence: SIZES}\n"


def plan(tmp_path: Path, sizes: str = "[8, 16]", **more: str) -> Plan:
    encoder(tmp_path / "m.onnx")
    (tmp_path / "m.yaml").write_text(OF_LENGTHS.replace("SIZES", sizes))
    return make_plan({"target": "dpuv3", "model": str(tmp_path / "m.yaml"), **more}, tmp_path / "build")


def test_a_job_for_each_length_quantised_as_the_largest(tmp_path: Path) -> None:
    found = plan(tmp_path)
    assert [dict(job.variables.dims) for job in found.jobs] == [{"sequence": 8}, {"sequence": 16}]
    assert [job.like and job.like.at for job in found.jobs] == ["sequence 16", None]
    small, large = found.steps
    assert small["calibration"] is large["calibration"]
    assert large["graph"] in small["graph"].before
    assert large["graph"] in small["bundle"].chain
    assert {step.job.at for step in found.joined[0].before} == {"sequence 8", "sequence 16"}
    assert len({job.folder for job in found.jobs} | {found.joined[0].job.folder}) == 3


def test_variables_go_before_the_file(tmp_path: Path) -> None:
    assert [job.at for job in plan(tmp_path, lengths="sequence:2,3,4").jobs] == ["sequence 2", "sequence 3", "sequence 4"]
    alone = plan(tmp_path, dim="sequence:8")
    assert [job.at for job in alone.jobs] == [""]
    assert alone.joined == ()


def test_two_dimensions_have_every_combination(tmp_path: Path) -> None:
    found = plan(tmp_path, lengths="b:1,2,a:3,4,5").jobs
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
        plan(tmp_path, sizes, **more)
    assert message in str(raised.value)


def test_models_without_lengths(tmp_path: Path) -> None:
    assert declared_lengths(encoder(tmp_path / "m.onnx")) == ()
    (tmp_path / "m.yaml").write_text(OF_LENGTHS.replace("lengths: {sequence: SIZES}", ""))
    assert declared_lengths(tmp_path / "m.yaml") == ()


def test_each_step_is_there_once_so_that_a_build_can_be_cleaned(tmp_path: Path) -> None:
    found = plan(tmp_path)
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
