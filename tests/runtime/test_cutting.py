"""Turns of host and regions: every tensor made before it is read, every node once, no turn more than needed."""

from collections.abc import Sequence
from itertools import pairwise, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolchain.runtime.cutting import Item, turns


def items(kinds: Sequence[bool], edges: Sequence[Sequence[int]]) -> list[Item]:
    """Node k makes tensor k and reads those of `edges[k]`, all smaller; one without any reads the input."""
    reads = [frozenset(str(e) for e in each) or frozenset({"x"}) for each in edges]
    return [Item(f"node{k}", region, reads[k], (str(k),)) for k, region in enumerate(kinds)]


@st.composite
def graphs(draw: st.DrawFn) -> list[Item]:
    kinds = draw(st.lists(st.booleans(), max_size=6))
    return items(kinds, [draw(st.lists(st.integers(0, k - 1), unique=True, max_size=3)) if k else [] for k in range(len(kinds))])


def fewest(graph: Sequence[Item]) -> int:
    """Turns of the best of all legal orders."""
    best = len(graph)
    for order in permutations(range(len(graph))):
        place = {str(number): at for at, number in enumerate(order)}
        if all(place[name] < place[str(number)] for number in order for name in graph[number].reads - {"x"}):
            best = min(best, sum(graph[a].region != graph[b].region for a, b in pairwise(order)) + 1 if order else 0)
    return best


@settings(max_examples=40, deadline=None)
@given(graphs())
def test_no_order_has_fewer_turns(graph: list[Item]) -> None:
    found = turns(graph, ["x"])
    known = {"x"}
    for turn in found:
        for number in turn.items:
            assert graph[number].region == turn.region
            assert graph[number].reads <= known
            known.update(graph[number].writes)
    assert sorted(number for turn in found for number in turn.items) == list(range(len(graph)))
    assert len(found) == fewest(graph)


def test_a_tensor_that_nobody_makes() -> None:
    with pytest.raises(ValueError, match="'node0' reads a tensor that nothing before it makes"):
        turns([Item("node0", False, frozenset({"y"}), ("z",))], ["x"])
