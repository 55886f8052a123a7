"""Placement of every node of a small network, and its shares."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.report.networks import Case, case, split
from toolchain.report.placement import FOLDED, HOST, MACHINE, NodePlaces, Placed


def placed(where: str, macs: int) -> Placed:
    return Placed("n", "Conv", where, "", "", "", "", macs, 0)


@pytest.mark.parametrize(
    ("nodes", "node_percent", "mac_percent"),
    [
        ((), 0.0, 0.0),
        ((placed(FOLDED, 5),), 0.0, 0.0),
        ((placed(MACHINE, 3), placed(HOST, 1), placed(FOLDED, 9)), 50.0, 75.0),
        ((placed(MACHINE, 0), placed(MACHINE, 0)), 100.0, 0.0),
    ],
)
def test_folded_nodes_count_on_neither_side(nodes: Sequence[Placed], node_percent: float, mac_percent: float) -> None:
    found = NodePlaces(tuple(nodes), 0)
    assert (found.node_percent, found.mac_percent) == (node_percent, mac_percent)
    assert found.machine_macs <= found.macs == sum(node.macs for node in nodes if node.where != FOLDED)


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Case:
    folder: Path = tmp_path_factory.mktemp("gated")
    return case("vta", split(folder / "gated.onnx"), folder)


def test_every_node_is_where_it_runs_and_says_why(gated: Case) -> None:
    found = {node.node: node for node in gated.placement.nodes}
    assert {name: found[name].where for name in ("first", "active", "gate", "second")} == {
        "first": MACHINE, "active": MACHINE, "gate": HOST, "second": MACHINE,
    }  # fmt: skip
    assert "no kernel for 'sigmoid'" in found["gate"].reason
    assert found["gate"].reasons
    assert (found["first"].target, found["first"].reason, found["first"].macs) == ("vta", "", 4 * 4 * 9 * 12 * 12)
    assert found["first"].operation == found["active"].operation
    assert found["first"].bytes > found["active"].bytes == 0
    assert gated.placement.conversions == 4
