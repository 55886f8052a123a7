"""Blocks become one sub-graph as in the paper's figure 5, stages stay apart; whatever is merged can run sub-graph by sub-graph."""

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedule.instances.made_networks import STAGE, blocks, convolution, graph_of, networks, stages, total
from toolchain.schedule.instances.merging import Grouper, branches, diamonds, merged, straight
from toolchain.schedule.instances.network import Members, Network
from toolchain.schedule.instances.split_info import Levels
from toolchain.schedule.search.cover import contracted


def single(network: Network) -> "nx.DiGraph[Members]":
    found = contracted(graph_of(network), [])
    assert found is not None
    return found


def test_a_convolution_block_and_an_identity_block_become_one_sub_graph() -> None:
    """Three tensors of an image at once, eight images."""
    (found,) = merged(blocks(), Levels(local=3 * 4 * 8))
    assert found.members == tuple(range(9))
    assert found.split
    assert found.split.factor == 1


def test_stages_with_down_sampling_stay_apart() -> None:
    """A producer's large factor would be its reader's: rule (i)."""
    found = merged(stages(), Levels(STAGE))
    assert [each.members for each in found] == [(0,), (1,), (2,), (3,)]


def test_without_the_rules_stages_merge_where_instances_fit() -> None:
    (found,) = merged(stages(), Levels(STAGE), ruled=False)
    assert found.members == (0, 1, 2, 3)


def test_a_merge_that_computes_more_than_it_saves_is_left() -> None:
    works = convolution("a", "in", (1, 1, 16, 1), 1, reach=5, cycles=1e6), convolution("b", "a", (1, 1, 16, 1), 1, reach=5, cycles=1e6)
    network = Network(works, frozenset({"b"}))
    assert len(merged(network, Levels(24, moves=1.0), ruled=False)) == 2
    assert len(merged(network, Levels(24, moves=1e-9), ruled=False)) == 1


def test_patterns() -> None:
    """A diamond without its entry; a branch from the exit; a straight pair."""
    shape = (1, 1, 4, 1)
    works = [convolution("entry", "in", shape, 1, reach=1)]
    works += [convolution(name, "entry", shape, 1, reach=1) for name in ("left", "right")]
    works += [total("exit", ("left", "right"), shape), convolution("after", "exit", shape, 1, reach=1)]
    network = Network(tuple(works), frozenset({"after"}))
    grouper, graph = Grouper(network, Levels(1 << 10)), single(network)
    assert list(diamonds(grouper, graph)) == [((1,), (2,), (3,))]
    assert list(branches(grouper, graph)) == [((1,), (3,)), ((2,), (3,))]
    assert list(straight(grouper, graph)) == [((3,), (4,))]


@pytest.mark.parametrize("ruled", [True, False])
@settings(max_examples=60, deadline=None)
@given(network=networks(), local=st.integers(8, 2000), moves=st.floats(0.01, 100))
def test_sub_graphs_are_a_partition_without_cycles(ruled: bool, network: Network, local: int, moves: float) -> None:
    found = merged(network, Levels(local, moves=moves), ruled)
    assert sorted(index for each in found for index in each.members) == list(range(len(network.works)))
    assert contracted(graph_of(network), [each.members for each in found]) is not None
    for each in found:
        assert each.split is not None or len(each.members) == 1
