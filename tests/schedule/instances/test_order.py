"""The orders of the paper's figures 6 and 7, and laws: no instance runs before one that it reads of, and edges are those of shared elements."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedule.instances.made_networks import STAGE, networks, stages
from toolchain.schedule.instances.merging import merged
from toolchain.schedule.instances.network import Network
from toolchain.schedule.instances.order import (
    Pieces,
    breadth_first,
    depth_first,
    heaviest_first,
    most_held,
    order_of_subgraphs,
    pieces,
    waits,
)
from toolchain.schedule.instances.split_info import Levels


def paper() -> Pieces:
    network = stages()
    return pieces(network, merged(network, Levels(STAGE)))


def test_edges_of_instances_that_share_nothing_are_left_out() -> None:
    """Figure 6: of 8 x 4 + 4 x 2 + 2 edges those of two images each remain."""
    graph = waits(paper())
    assert len(graph) == 8 + 4 + 2 + 1
    assert graph.number_of_edges() == 8 + 4 + 2
    assert sorted(graph.predecessors((1, 3))) == [(0, 6), (0, 7)]


def test_depth_first_runs_two_instances_then_the_one_that_reads_them() -> None:
    """Figures 3b and 7f, in colours: instances of one sub-graph are alike."""
    graph = waits(paper())
    colours = "".join("abcd"[subgraph] for subgraph, _ in depth_first(graph))
    assert colours == "aabaabcaabaabcd"
    assert "".join("abcd"[subgraph] for subgraph, _ in breadth_first(graph)) == "aaaaaaaabbbbccd"
    assert order_of_subgraphs(depth_first(graph)) == [0, 1, 2, 3]


def test_depth_first_holds_less_at_once() -> None:
    """Instances of all stages leave as much: an image of stage 1 as two of stage 2."""
    own = paper()
    graph = waits(own)
    assert {own.size(item) for item in own.found} == {512}
    assert most_held(graph, breadth_first(graph), own.size) == (8 + 1) * 512
    assert most_held(graph, depth_first(graph), own.size) == (1 + 1 + 2 + 1) * 512


def test_the_heaviest_instance_runs_first() -> None:
    graph = waits(paper())
    order = heaviest_first(graph, lambda item: -item[0])
    assert [subgraph for subgraph, _ in order] == [0] * 8 + [1] * 4 + [2] * 2 + [3]
    assert heaviest_first(graph, lambda _: 1) == depth_first(graph)


@settings(max_examples=60, deadline=None)
@given(networks(), st.integers(8, 2000), st.booleans())
def test_every_order_runs_each_instance_once_after_those_that_it_reads(network: Network, local: int, ruled: bool) -> None:
    own = pieces(network, merged(network, Levels(local), ruled))
    graph = waits(own)
    for order in (breadth_first(graph), depth_first(graph), heaviest_first(graph, own.size)):
        place = {item: at for at, item in enumerate(order)}
        assert sorted(place) == sorted(own.found)
        assert all(place[one] < place[other] for one, other in graph.edges)
        assert max(map(own.size, order)) <= most_held(graph, order, own.size) <= sum(map(own.size, order))
        assert sorted(order_of_subgraphs(order)) == list(range(len(own.subgraphs)))
