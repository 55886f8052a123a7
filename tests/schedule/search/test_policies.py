"""Policies by name: the toolchain's, and those that an installed package brings."""

import sys
from pathlib import Path

import pytest

from tests.schedule.search.test_contest import space_on
from toolchain.schedule.compile_region import search_schedule
from toolchain.schedule.options import Options
from toolchain.schedule.search.policies import OWN, policy_named
from toolchain.spec.errors import UserError
from toolchain.spec.search_policies import POLICIES, check_policy

PLUGIN = """
def backwards(space):
    order = tuple(sorted(space.graph, key=lambda node: (len(list(space.graph.predecessors(node))) > 0, node == 1, node)))
    yield space.first
    yield type(space.first)(order, origin="the first branch last")
"""


def test_the_names_are_those_of_the_functions() -> None:
    assert tuple(OWN) == POLICIES
    assert all(policy_named(name) is OWN[name] for name in POLICIES)


def test_an_unknown_policy_suggests_the_nearest() -> None:
    with pytest.raises(UserError, match=r"E1202 there is no search policy 'covr'.*did you mean 'cover'"):
        check_policy("covr")


def test_a_package_brings_a_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acme_search.py").write_text(PLUGIN)
    info = tmp_path / "acme_search-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-search\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tilewright.search]\nbackwards = acme_search:backwards\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert check_policy("backwards") == "backwards"
    space = space_on("vta")
    schedule, trials = search_schedule(space.machine, space.kernels, space.region, Options(search="backwards", effort=3))
    assert [trial.draft.origin for trial in trials] == ["greedy", "the first branch last"]
    assert schedule.region == "block"
