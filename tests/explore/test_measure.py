"""Points that are built, and points that are refused."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import onnx_ir as ir
import pytest

from toolchain.explore.measure import measure, variables_of
from toolchain.explore.study import Axis, Study
from toolchain.spec.arrays import Array
from toolchain.spec.errors import UserError
from toolchain.spec.fingerprint import Memo
from toolchain.verify import ladder
from toolchain.verify.built import Built
from toolchain.verify.compare import oracle_tensors
from toolchain.verify.ladder import verify_outputs
from toolchain.verify.verdict import OutputVerdict

STUDY = Study(
    "vta:pynq", ("digits",), (Axis("LOG_BLOCK", ("3", "4", "9")), Axis("config", ("sim",)), Axis("streams", ("1",)), Axis("place", ("all",)))
)


def test_axes_become_the_variables_of_a_build() -> None:
    found = variables_of(STUDY, ("4", "sim", "2", "all"))
    assert (found.targets, found.models, found.params) == (("vta:sim",), ("digits",), (("LOG_BLOCK", "4"),))
    assert (found.streams, found.images, found.place) == (2, 0, "all")
    policies = replace(STUDY, axes=(Axis("search", ("greedy",)), Axis("effort", ("0",))))
    assert [(found.search, found.effort, found.params) for found in [variables_of(policies, ("greedy", "0"))]] == [("greedy", 0, ())]
    assert variables_of(replace(STUDY, axes=STUDY.axes[:1]), ("4",)).targets == ("vta:pynq",)


def test_machines_and_kernels_become_variables_too() -> None:
    study = replace(STUDY, axes=(Axis("machine", ("vta:pynq", "own/m.yaml")), Axis("without", ("none", "squares+add_both"))))
    found = [variables_of(study, study.point(number)) for number in range(study.size)]
    assert [each.targets for each in found] == [("vta:pynq",)] * 2 + [("own/m.yaml",)] * 2
    assert [each.without for each in found] == [(), ("add_both", "squares")] * 2
    mixed = replace(STUDY, axes=(Axis("machine", ("vta",)), Axis("config", ("sim",))))
    assert variables_of(mixed, ("vta", "sim")).targets == ("vta:sim",)


@pytest.mark.parametrize(("value", "code"), [("3", "E0111 "), ("9", "E0105 ")])
def test_a_point_that_the_machine_refuses_is_an_outcome(value: str, code: str, tmp_path: Path) -> None:
    found = measure(replace(STUDY, axes=STUDY.axes[:1]), (value,), tmp_path)
    assert found.refused.startswith(code)
    assert not found.figures


def test_a_refusal_of_the_system_is_none_of_the_point(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="E0005"):
        measure(replace(STUDY, axes=STUDY.axes[:1]), ("4",), tmp_path / "file")


def test_a_point_without_a_figure_that_is_asked_for_is_refused(tmp_path: Path) -> None:
    """A machine on which nothing runs would be the quickest of all."""
    study = Study("graphengine", ("digits",), (Axis("place", ("pays", "all")), Axis("effort", ("0",))), ("ms", "total_ms"), verify="no")
    idle, busy = (measure(study, (place, "0"), tmp_path) for place in ("pays", "all"))
    assert idle.refused == "'ms' is not known: nothing of a model runs on the machine"
    assert set(idle.figures) == {"total_ms", "accuracy"}
    assert not busy.refused
    assert busy.figures["ms"] > 0
    assert not measure(replace(study, objectives=("total_ms",)), ("pays", "0"), tmp_path).refused


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One point is built once."""
    return tmp_path_factory.mktemp("build")


def test_a_point_has_every_figure(builds: Path) -> None:
    found = measure(replace(STUDY, axes=STUDY.axes[:1], verify="sample"), ("4",), builds)
    assert found.refused == ""
    assert set(found.figures) == {"ms", "total_ms", "cycles", "bytes", "area", "energy", "power", "accuracy"}
    assert found.figures["ms"] == pytest.approx(found.figures["cycles"] / 100_000)
    assert found.figures["power"] == pytest.approx(found.figures["energy"] / found.figures["ms"])
    assert found.figures["energy"] > found.figures["bytes"] * 162.5e-6
    assert found.figures["area"] == pytest.approx(2.698, abs=0.001)
    assert (builds / found.reports[0]).read_text().startswith("digits on vta:pynq")
    assert found.limits
    assert found.seconds > 0
    assert not list(builds.rglob("verdict.json"))


def test_a_point_whose_outputs_differ_on_a_sample_is_refused(builds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def off_by_one(built: Built, samples: Mapping[str, Array]) -> list[OutputVerdict]:
        first, *others = verify_outputs(built, samples)
        assert (first.differing, first.mixed) == (0, 0)
        return [replace(first, differing=1), *others]

    monkeypatch.setattr("toolchain.verify.ladder.verify_outputs", off_by_one)
    found = measure(replace(STUDY, axes=STUDY.axes[:1], verify="sample"), ("4",), builds)
    assert found.refused.startswith("E1204 output ")


def test_the_oracle_is_asked_once_for_machines_with_the_same_integers(builds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[int]()

    def counted(model: ir.Model, samples: Mapping[str, Array]) -> dict[str, Array]:
        asked.append(len(samples))
        return oracle_tensors(model, samples)

    monkeypatch.setattr(ladder, "ORACLES", Memo[Mapping[str, Array]](8))
    monkeypatch.setattr(ladder, "oracle_tensors", counted)
    study = replace(STUDY, axes=(Axis("LOG_BUS", ("3", "4")), Axis("LOG_BLOCK", ("4", "5")), Axis("effort", ("0",))), verify="sample")
    found = [measure(study, point, builds) for point in (("3", "4", "0"), ("4", "4", "0"))]
    assert len({each.figures["ms"] for each in found}) == 2
    assert (asked, [each.refused for each in found]) == ([1], ["", ""])
