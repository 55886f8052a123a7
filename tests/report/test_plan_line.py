"""The line of a run is as long as the run."""

import pytest

from tests.report.networks import Case, cases
from toolchain.report.plan_line import plan_line
from toolchain.runtime.timing import modelled


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    return cases(tmp_path_factory.mktemp("cases"))


@pytest.mark.parametrize("name", ["split on vta", "split on dpuv3", "nothing on vta"])
def test_spans_follow_each_other_to_the_end(name: str, known: dict[str, Case]) -> None:
    machines, manifest = known[name].built.machines, known[name].built.bundle.manifest
    line = plan_line(machines, manifest)
    assert line[0].start == 0
    assert [span.start for span in line[1:]] == pytest.approx([span.start + span.ms for span in line[:-1]])
    assert line[-1].start + line[-1].ms == pytest.approx(modelled(machines, manifest).total_ms)


def test_lanes_take_turns(known: dict[str, Case]) -> None:
    built = known["split on vta"].built
    found = [(span.lane, span.name) for span in plan_line(built.machines, built.bundle.manifest)]
    regions = [("border", "region0"), ("machine", "region0")], [("border", "region1"), ("machine", "region1")]
    assert found[1:3] == regions[0]
    assert found[4:6] == regions[1]
    assert [lane for lane, _ in found] == ["host", "border", "machine"] * 2 + ["host"]
