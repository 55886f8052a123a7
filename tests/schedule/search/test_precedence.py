"""Convex sets and orders, on random graphs, by their definitions."""

import itertools

import networkx as nx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.schedule.made_regions import Builder
from tests.schedule.search.made_graphs import inception, random_graph
from toolchain.schedule.search.precedence import breadth_order, contracted, given_order, is_convex, operation_graph

SEEDS = st.integers(0, 1 << 20)


@given(SEEDS, st.integers(2, 9), SEEDS)
def test_a_set_is_convex_where_no_path_leaves_it_and_comes_back(seed: int, nodes: int, chosen: int) -> None:
    graph, rng = random_graph(seed, nodes), np.random.default_rng(chosen)
    members = {node for node in range(nodes) if rng.random() < 0.5} or {0}
    outside = nx.descendants
    leaves = any(
        node not in members and any(node in outside(graph, member) for member in members) and outside(graph, node) & members for node in graph
    )
    assert is_convex(graph, members) == (not leaves)


@given(SEEDS, st.integers(2, 9))
def test_orders_of_blocks_keep_to_the_graph_and_hold_sets_together(seed: int, nodes: int) -> None:
    graph = random_graph(seed, nodes)
    pair = next((pair for pair in itertools.combinations(range(nodes), 2) if is_convex(graph, pair)), None)
    blocks = contracted(graph, [pair] if pair else [])
    assert blocks is not None
    for order in (given_order(blocks), breadth_order(blocks)):
        place = {node: number for number, node in enumerate(order)}
        assert sorted(order) == list(range(nodes))
        assert all(place[a] < place[b] for a, b in graph.edges)
        assert pair is None or abs(place[pair[0]] - place[pair[1]]) == 1


def test_sets_that_wait_for_each_other_have_no_order() -> None:
    graph: nx.DiGraph[int] = nx.DiGraph([(0, 1), (2, 3)])
    assert contracted(graph, [(0, 3), (1, 2)]) is None
    assert contracted(graph, [(0, 2), (1, 3)]) is not None


@given(SEEDS, st.integers(1, 9))
def test_the_graph_of_a_region_has_the_reads_between_operations(seed: int, steps: int) -> None:
    region = Builder(np.random.default_rng(seed), {"conv2d", "add", "max_pool"}).region(steps)
    pairs = itertools.combinations(enumerate(region.operations), 2)
    assert set(operation_graph(region).edges) == {(a, b) for (a, earlier), (b, later) in pairs if region.reads(later, earlier)}


def test_level_by_level_the_branches_of_a_block_stand_side_by_side() -> None:
    blocks = contracted(operation_graph(inception()), ())
    assert blocks is not None
    assert breadth_order(blocks) == (0, 1, 2, 4, 6, 3, 5, 7)
