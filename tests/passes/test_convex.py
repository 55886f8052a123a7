"""Groups are convex, whole and as large as joining along edges can make them."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from toolchain.passes.convex import Room, convex_groups


def ways(before: list[list[int]], one: set[int], other: set[int]) -> bool:
    """Whether some way leads from `one` to `other` through a node of neither."""
    reached, found = {n for n in range(len(before)) if n not in one | other and one & set(before[n])}, False
    for node in range(len(before)):
        if node not in one | other and reached & set(before[node]):
            reached.add(node)
        found |= node in other and bool(reached & set(before[node]))
    return found


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[list[int]], list[bool]]:
    count = draw(st.integers(1, 12))
    before = [sorted(draw(st.sets(st.integers(0, node - 1), max_size=3))) if node else [] for node in range(count)]
    return before, draw(st.lists(st.booleans(), min_size=count, max_size=count))


@settings(max_examples=50, deadline=None)
@given(graphs())
def test_groups_are_convex_and_cannot_be_joined_any_further(graph: tuple[list[list[int]], list[bool]]) -> None:
    before, taken = graph
    groups = [set(group) for group in convex_groups(before, taken)]
    assert sorted(itertools.chain(*groups)) == [node for node, yes in enumerate(taken) if yes]
    assert [min(group) for group in groups] == sorted(min(group) for group in groups)
    assert not any(ways(before, group, group) for group in groups)
    check_no_circle(before, groups)


def check_no_circle(before: list[list[int]], groups: list[set[int]]) -> None:
    """Of the graph with each group as one node."""
    owner = {node: index for index, group in enumerate(groups) for node in group}
    order: dict[int, set[int]] = {}
    for node, makers in enumerate(before):
        order.setdefault(owner.get(node, -1 - node), set()).update(owner.get(maker, -1 - maker) for maker in makers)
    left = {key: value - {key} for key, value in order.items()}
    while ready := [key for key, value in left.items() if not value & left.keys()]:
        for key in ready:
            del left[key]
    assert not left


@settings(max_examples=50, deadline=None)
@given(graphs(), st.data())
def test_groups_of_several_owners_can_run_one_after_the_other(graph: tuple[list[list[int]], list[bool]], data: st.DataObject) -> None:
    """And the first owner's are those that it would have alone."""
    before, taken = graph
    owners = [data.draw(st.integers(1, 3)) if yes else 0 for yes in taken]
    groups = convex_groups(before, owners)
    assert all(len({owners[node] for node in group}) == 1 for group in groups)
    assert [group for group in groups if owners[group[0]] == 1] == convex_groups(before, [owner == 1 for owner in owners])
    assert sorted(itertools.chain(*groups)) == [node for node, owner in enumerate(owners) if owner]
    check_no_circle(before, [set(group) for group in groups])


def test_a_host_operation_beside_the_machine_keeps_two_groups_apart() -> None:
    """0 -> 1 (host) -> 2, and 0 -> 2."""
    assert convex_groups([[], [0], [0, 1]], [True, False, True]) == [[0], [2]]


def test_branches_that_meet_are_one_group() -> None:
    assert convex_groups([[], [0], [0], [1, 2]], [False, True, True, True]) == [[1, 2, 3]]


def test_what_no_host_operation_separates_is_joined_late() -> None:
    """A second branch that needs nothing from the host joins what comes after the host."""
    assert convex_groups([[], [0], [], [1, 2]], [True, False, True, True]) == [[0], [2, 3]]


@settings(max_examples=50, deadline=None)
@given(graphs(), st.integers(1, 5), st.lists(st.integers(0, 4), min_size=12, max_size=12))
def test_no_group_is_larger_than_its_room(graph: tuple[list[list[int]], list[bool]], most: int, weights: list[int]) -> None:
    before, taken = graph
    room = Room((most, 6.0), [(1, weight) for weight in weights[: len(before)]])
    groups = [set(group) for group in convex_groups(before, taken, {1: room})]
    assert sorted(itertools.chain(*groups)) == [node for node, yes in enumerate(taken) if yes]
    assert all(len(group) <= most and sum(weights[node] for node in group) <= 6 for group in groups)
    assert not any(ways(before, group, group) for group in groups)
    check_no_circle(before, groups)
    assert convex_groups(before, taken, {1: Room((12.0, 48.0), room.weights)}) == convex_groups(before, taken)


def test_a_chain_is_cut_where_its_room_ends() -> None:
    room = Room((2,), [(1,)] * 5)
    assert convex_groups([[], [0], [1], [2], [3]], [1] * 5, {1: room}) == [[0, 1], [2, 3], [4]]
    assert convex_groups([[], [0], [1], [2], [3]], [2, 2, 2, 1, 1], {2: room}) == [[0, 1], [2], [3, 4]]
