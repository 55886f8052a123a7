"""The network that all tests of the studio share: two regions on VTA, a gate on the host between them."""

import pytest

from tests.report.networks import Case, case, split
from toolchain.report.studio_regions import StudioRegion, studio_regions

RECORD = {"taken": "greedy", "candidates": [{"candidate": "greedy", "cycles": 7}, {"candidate": "worse", "cycles": None}]}


@pytest.fixture(scope="package")
def built_case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    folder = tmp_path_factory.mktemp("studio")
    return case("vta", split(folder / "split.onnx"), folder / "build")


@pytest.fixture(scope="package")
def regions(built_case: Case) -> list[StudioRegion]:
    """The second one with a record of its search."""
    return list(studio_regions(built_case.built, {"region1": RECORD}))
