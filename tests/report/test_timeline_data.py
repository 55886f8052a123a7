"""The data of a timeline: columns of the program's own numbers in few bytes."""

import base64
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.report.networks import cases
from toolchain.graph.regions import region_calls
from toolchain.report.timeline_data import Legend, packed, page_data, region_legend
from toolchain.timing.simulate import Timeline
from toolchain.verify.built import program_of_build


def unpacked(column: dict[str, str]) -> NDArray[Any]:
    """The numbers as the page's script reads them."""
    return np.frombuffer(base64.b64decode(column["data"]), np.dtype(column["type"]).newbyteorder("<"))


@pytest.fixture(scope="module")
def region(tmp_path_factory: pytest.TempPathFactory) -> tuple[Timeline, Legend]:
    built = cases(tmp_path_factory.mktemp("cases"))["split on dpuv3"].built
    tested = program_of_build(built, region_calls(built.partitioned)[0])
    return tested.timeline, region_legend(tested)


@given(st.lists(st.integers(-(1 << 31), (1 << 31) - 1)))
def test_integers_come_back_from_the_least_room(values: list[int]) -> None:
    column = packed(np.array(values, np.int64))
    assert unpacked(column).tolist() == values
    size = int(column["type"][1:])
    assert size == 1 or any(not -(1 << (4 * size - 1)) <= value < 1 << (4 * size - 1) for value in values)


def test_columns_have_an_entry_an_instruction(region: tuple[Timeline, Legend]) -> None:
    timeline, legend = region
    data = page_data("t", timeline, legend)
    columns = {name: unpacked(column) for name, column in data["columns"].items()}
    assert {len(column) for column in [*columns.values(), data["text"], data["footprint"]]} == {len(timeline.program)}
    assert columns["start"].tolist() == timeline.result.start.tolist()
    assert (columns["start"] + columns["length"]).tolist() == timeline.result.end.tolist()
    assert columns["waited"].tolist() == timeline.waited.tolist()
    assert [node["name"] for node in data["operations"]] == [node.name for node in legend.nodes] != []
    late = {i for i in range(len(timeline.program)) if timeline.waited[i] > 0 or timeline.contended[i] > 0 or timeline.held[i] > 0}
    assert set(data["causes"]) == late != set()


def test_a_long_program_leaves_its_listing_out(region: tuple[Timeline, Legend]) -> None:
    data = page_data("t", *region, most_listed=len(region[0].program) - 1)
    assert "text" not in data
    assert "footprint" not in data
    assert data["causes"] == {}


def test_operations_are_joined_by_what_they_read(region: tuple[Timeline, Legend]) -> None:
    for number, node in enumerate(region[1].nodes):
        assert all(0 <= other < number for other in node.reads)
