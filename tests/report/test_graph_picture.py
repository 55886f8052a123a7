"""The picture of a graph: each operation and node of the host once, edges downwards, no box over another."""

from itertools import combinations
from pathlib import Path

import pytest

from tests.report.networks import Case, case, nothing
from toolchain.report.graph_picture import ACROSS, BOX_TALL, BOX_WIDE, DOWN, GraphPicture, graph_picture


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
