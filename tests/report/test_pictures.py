"""Pictures: of a graph, each operation and node of the host once, edges downwards; of every machine, every memory and unit once, an arrow for every
access; no box over another."""

from itertools import combinations
from pathlib import Path

import pytest

from tests.report.networks import Case, case, nothing
from toolchain.report.pictures import (
    ACROSS,
    BLOCK_TALL,
    BLOCK_WIDE,
    BOX_TALL,
    BOX_WIDE,
    DOWN,
    GraphPicture,
    graph_picture,
    machine_picture,
    rate_text,
)
from toolchain.spec.load import load_machine
from toolchain.spec.model.instructions import Resource


@pytest.fixture(scope="module")
def picture(built_case: Case) -> GraphPicture:
    return graph_picture(built_case.built.floating, built_case.placement)


def test_boxes_are_operations_and_nodes_of_the_host(built_case: Case, picture: GraphPicture) -> None:
    assert sorted(name for box in picture.boxes for name in box.nodes) == sorted(node.node for node in built_case.placement.computed)
    (gate,) = (box for box in picture.boxes if box.key[1] == "gate")
    assert gate.key[0] == ""
    assert gate.reason
    (first,) = (box for box in picture.boxes if box.nodes[0] == "first")
    assert (first.nodes, first.computes, first.shape) == (("first", "active"), "Conv+Relu", "1x4x12x12")
    assert first.key[0] == "region0"


def test_edges_go_down_and_boxes_stand_apart(picture: GraphPicture) -> None:
    at = {box.key: box for box in picture.boxes}
    assert picture.edges
    for edge in picture.edges:
        assert at[edge.target].y >= at[edge.source].y + BOX_TALL + DOWN
    for one, other in combinations(picture.boxes, 2):
        assert abs(one.x - other.x) >= BOX_WIDE + ACROSS or abs(one.y - other.y) >= BOX_TALL + DOWN
    assert all(0 <= box.x <= picture.width - BOX_WIDE and 0 <= box.y <= picture.height - BOX_TALL for box in picture.boxes)


def test_the_same_graph_has_the_same_picture(built_case: Case, picture: GraphPicture) -> None:
    assert graph_picture(built_case.built.floating, built_case.placement) == picture


def test_a_network_of_the_host_alone_is_drawn(tmp_path: Path) -> None:
    alone = case("vta", nothing(tmp_path / "nothing.onnx"), tmp_path / "build")
    assert [box.key for box in graph_picture(alone.built.floating, alone.placement).boxes] == [("", "soft"), ("", "gate"), ("", "product")]


MACHINES = ("vta", "dpuv3", "dnnvm", "stcp920", "gemmini", "clib", "graphengine")


@pytest.mark.parametrize("name", MACHINES)
def test_every_part_is_drawn_once_and_within_the_picture(name: str) -> None:
    machine = load_machine(name)
    picture = machine_picture(machine)
    assert sorted(b.name for b in picture.blocks if b.role == "memory") == sorted(m.name for m in machine.memories)
    assert [b.name for b in picture.blocks if b.role == "unit"] == [u.name for u in machine.units]
    for one, other in combinations(picture.blocks, 2):
        assert abs(one.x - other.x) >= BLOCK_WIDE or abs(one.y - other.y) >= BLOCK_TALL
    assert all(0 <= b.x <= picture.width - BLOCK_WIDE and 0 <= b.y <= picture.height - BLOCK_TALL for b in picture.blocks)


@pytest.mark.parametrize("name", MACHINES)
def test_an_arrow_is_an_access(name: str) -> None:
    machine = load_machine(name)
    drawn = {(a.unit, a.memory, a.write) for a in machine_picture(machine).arrows}
    said = {(u.name, machine.view[m].memory, False) for u in machine.units for m in u.reads}
    said |= {(u.name, machine.view[m].memory, True) for u in machine.units for m in u.writes}
    assert drawn == said


def test_a_core_is_drawn_once_with_its_count() -> None:
    picture = machine_picture(load_machine("stcp920"))
    assert any("core, 8 in each of 4 clusters" in frame.title for frame in picture.frames)
    assert "units, in each of 32 streams" in [frame.title for frame in picture.frames]


def test_a_rate_counts_bytes_of_a_cycle_and_a_second() -> None:
    assert rate_text(Resource("port", 64, "fifo"), 300_000) == "64 bytes a cycle, 19.2 GB/s"
    assert rate_text(Resource("port", 3, "fifo", per=2), 1000) == "3 bytes in 2 cycles, 1.5 MB/s"
