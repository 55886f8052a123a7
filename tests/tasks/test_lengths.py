"""Which lengths a build has, and the jobs that they make."""

from pathlib import Path

import pytest

from tests.lengths_network import built, encoder
from toolchain.spec.errors import UserError
from toolchain.tasks.folders import clean_plan
from toolchain.tasks.lengths import declared_lengths
from toolchain.tasks.plan import Plan, info_text, make_plan
from toolchain.tasks.stage import STAGES

YAML = "model: {name: m, summary: a test}\nonnx: m.onnx\nlengths: {sequence: SIZES}\n"


def plan(tmp_path: Path, sizes: str = "[8, 16]", **more: str) -> Plan:
    encoder(tmp_path / "m.onnx")
    (tmp_path / "m.yaml").write_text(YAML.replace("SIZES", sizes))
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
    (tmp_path / "m.yaml").write_text(YAML.replace("lengths: {sequence: SIZES}", ""))
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
