"""The data of a timeline: columns of the program's own numbers in few bytes."""

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.report.networks import cases
from toolchain.graph.regions import region_calls
from toolchain.report.timeline_data import Legend, Packed, packed, page_data, region_legend
from toolchain.timing.simulate import Timeline
from toolchain.verify.built import program_of_build


def unpacked(column: Packed) -> NDArray[Any]:
    """The numbers as the page's script reads them."""
    numbers = np.frombuffer(base64.b64decode(column["data"]), np.dtype(column["type"]).newbyteorder("<"))
    return unpacked(column["of"])[numbers] if "of" in column else numbers


def starts(data: Mapping[str, Any]) -> NDArray[np.float64]:
    """Cycles, from the steps between those of each lane."""
    lane, step = unpacked(data["columns"]["lane"]), unpacked(data["columns"]["step"]).astype(np.int64)
    found = np.zeros(len(lane))
    for number in range(len(data["lanes"])):
        found[lane == number] = np.cumsum(step[lane == number]) / 1000
    return found


@pytest.fixture(scope="module")
def region(tmp_path_factory: pytest.TempPathFactory) -> tuple[Timeline, Legend]:
    built = cases(tmp_path_factory.mktemp("cases"))["split on dpuv3"].built
    tested = program_of_build(built, region_calls(built.partitioned)[0])
    return tested.timeline, region_legend(tested)


@given(st.lists(st.integers(-(1 << 52), 1 << 52)))
def test_integers_come_back_from_the_least_room(values: list[int]) -> None:
    column = packed(np.array(values, np.int64))
    assert unpacked(column).tolist() == values
    least = next((size for size in (1, 2, 4) if all(-(1 << (8 * size - 1)) <= value < 1 << (8 * size - 1) for value in values)), 8)
    assert room(column) <= least * len(values)


@given(st.lists(st.sampled_from([0.0, 0.5, 1e9]), min_size=40))
def test_few_distinct_numbers_take_a_byte_each(values: list[float]) -> None:
    column = packed(np.array(values))
    assert unpacked(column).tolist() == values
    assert room(column) == len(values) + 8 * len(set(values))


def room(column: Packed) -> int:
    """Bytes."""
    return len(base64.b64decode(column["data"])) + (room(column["of"]) if "of" in column else 0)


def test_columns_have_an_entry_an_instruction(region: tuple[Timeline, Legend]) -> None:
    timeline, legend = region
    data = page_data("t", timeline, legend)
    columns = {name: unpacked(column) for name, column in data["columns"].items()}
    assert {len(column) for column in [*columns.values(), data["text"], data["footprint"]]} == {len(timeline.program)}
    start = starts(data)
    assert start.tolist() == timeline.result.start.tolist()
    assert (start + columns["length"]).tolist() == timeline.result.end.tolist()
    back = columns["back"].astype(np.int64)
    assert np.where(back == 0, -1, np.arange(len(back)) - back).tolist() == timeline.result.producer.tolist()
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
