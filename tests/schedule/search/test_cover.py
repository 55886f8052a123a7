"""Convex sets and orders, on random graphs, by their definitions. Covers of random graphs: disjoint groups that have an order, and the optimum
is the cheapest of all."""

import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.schedule.made_regions import Builder
from tests.schedule.search.made_graphs import inception, random_graph
from toolchain.schedule.search import cover
from toolchain.schedule.search.cover import (
    COVERS,
    Group,
    Problem,
    breadth_order,
    contracted,
    depth_order,
    given_order,
    greedy_cover,
    is_convex,
    operation_graph,
    optimal_cover,
    path_cover,
)

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


def test_shorter_branches_stand_first_and_what_joins_them_behind_the_longest() -> None:
    """A residual block whose projection comes last: 0 -> 1 -> 2 -> 4 and 0 -> 3 -> 4."""
    graph: nx.DiGraph[int] = nx.DiGraph([(0, 1), (1, 2), (0, 3), (2, 4), (3, 4), (4, 5)])
    assert depth_order(graph) == (0, 3, 1, 2, 4, 5)


@given(SEEDS, st.integers(1, 9))
def test_an_order_by_depth_keeps_to_the_graph(seed: int, nodes: int) -> None:
    graph = random_graph(seed, nodes)
    place = {node: number for number, node in enumerate(depth_order(graph))}
    assert sorted(place) == list(range(nodes))
    assert all(place[a] < place[b] for a, b in graph.edges)


def problem_of(seed: int, nodes: int, groups: int) -> Problem:
    """Random prices; a group costs between a third of its operations alone and a little more than these."""
    rng, graph = np.random.default_rng(seed), random_graph(seed, nodes)
    alone = {node: float(rng.integers(10, 100)) for node in range(nodes)}
    convex = [own for size in (2, 3) for own in itertools.combinations(range(nodes), size) if is_convex(graph, own)]
    chosen = [convex[int(k)] for k in rng.permutation(len(convex))[:groups]]
    return Problem(graph, alone, {own: round(sum(alone[k] for k in own) * float(rng.uniform(0.3, 1.1))) for own in chosen})


def every_cover(problem: Problem) -> float:
    """The least cycles of all sets of groups that are disjoint and have an order."""
    least = problem.cycles([])
    names = list(problem.groups)
    for mask in range(1 << len(names)):
        own: list[Group] = [group for k, group in enumerate(names) if mask >> k & 1]
        members = [member for group in own for member in group]
        if len(members) == len(set(members)) and contracted(problem.graph, own) is not None:
            least = min(least, problem.cycles(own))
    return least


@given(SEEDS, st.integers(2, 8), st.integers(0, 8))
def test_the_optimum_is_the_cheapest_of_all_covers(seed: int, nodes: int, groups: int) -> None:
    problem = problem_of(seed, nodes, groups)
    found = optimal_cover(problem)
    assert found.optimal
    assert found.cycles == every_cover(problem)


@given(SEEDS, st.integers(2, 9), st.integers(0, 20))
def test_every_cover_is_one_and_costs_what_it_says(seed: int, nodes: int, groups: int) -> None:
    problem = problem_of(seed, nodes, groups)
    for solve in COVERS.values():
        found = solve(problem)
        members = [member for group in found.groups for member in group]
        assert len(members) == len(set(members))
        assert contracted(problem.graph, found.groups) is not None
        assert found.cycles == problem.cycles(found.groups) <= problem.cycles([])


@given(SEEDS, st.integers(2, 9), st.integers(0, 20))
def test_paths_are_never_dearer_than_greed_nor_cheaper_than_the_optimum(seed: int, nodes: int, groups: int) -> None:
    problem = problem_of(seed, nodes, groups)
    assert optimal_cover(problem).cycles <= path_cover(problem).cycles <= greedy_cover(problem).cycles


def test_an_early_group_that_hides_a_better_one_costs_the_greedy() -> None:
    """DNNVM, figure 8: with 3 and 4 fused, 4 and 5 cannot be."""
    graph = random_graph(0, 0)
    graph.add_edges_from([(0, 1), (1, 2)])
    problem = Problem(graph, {0: 10.0, 1: 10.0, 2: 10.0}, {(0, 1): 18.0, (1, 2): 11.0})
    assert (greedy_cover(problem).cycles, path_cover(problem).cycles, optimal_cover(problem).cycles) == (28.0, 21.0, 21.0)


def test_an_addition_is_computed_with_one_of_its_branches() -> None:
    """DNNVM, figure 9 c: the edge of the other branch is pruned."""
    graph = random_graph(0, 0)
    graph.add_edges_from([(0, 2), (1, 2), (2, 3)])
    problem = Problem(graph, dict.fromkeys(range(4), 10.0), {(0, 2): 15.0, (1, 2): 12.0, (2, 3): 14.0})
    assert path_cover(problem).groups == ((1, 2),)


def test_without_room_for_all_frontiers_the_cover_is_no_proven_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cover, "MOST_FRONTIERS", 1)
    graph = random_graph(0, 0)
    graph.add_nodes_from(range(4))
    found = optimal_cover(Problem(graph, dict.fromkeys(range(4), 10.0), {(1, 3): 12.0}))
    assert not found.optimal
    assert found.cycles == 32.0
