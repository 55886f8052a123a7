"""Regions that do not pay.

The cheapest division is that of all divisions tried one by one.
"""

import itertools
import math
from itertools import chain, combinations
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.in_process import Target, compile_file
from tests.c_networks import pictures, plain_network
from toolchain.passes.context import NodeCost, Price, Tariff
from toolchain.passes.placement import Room, cheapest_division, convex_groups, oversize, pays, room_for
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine
from toolchain.spec.model import RegionLimits
from toolchain.spec.reasons import texts_of

MOST = 6
MS = st.integers(0, 9)


class Case:
    """A graph of up to six nodes; every tensor that no node reads is an output. costs: of nodes by number; crossings: of tensors by number."""

    def __init__(self, reads: list[list[int]], costs: list[tuple[int, int]], crossings: list[int]) -> None:
        values, self.nodes = [ir.Value(name="x")], list[ir.Node]()
        for number, read in enumerate(reads):
            self.nodes.append(ir.node("Op", [values[index % len(values)] for index in read], name=f"n{number}", num_outputs=1))
            values.append(self.nodes[-1].outputs[0])
        self.values, self.costs, self.crossings = values, costs, crossings
        self.graph = ir.Graph(values[:1], [value for value in values if not value.uses()], nodes=self.nodes)

    @property
    def tariff(self) -> Tariff:
        return Tariff(
            lambda node: NodeCost(*map(float, self.costs[self.nodes.index(node)])), lambda value: float(self.crossings[self.values.index(value)])
        )

    def total(self, chosen: set[ir.Node]) -> float:
        own = sum(cost[node in chosen] for node, cost in zip(self.nodes, self.costs, strict=True))
        sides = ((value, value.producer() in chosen, {user in chosen for user, _ in value.uses()} | self._asked(value)) for value in self.values)
        return own + sum(self.crossings[self.values.index(value)] for value, made, read in sides if read - {made})

    def _asked(self, value: ir.Value) -> set[bool]:
        return {False} if value.is_graph_output() else set()


CASES = st.integers(1, MOST).flatmap(
    lambda count: st.builds(
        Case,
        st.lists(st.lists(st.integers(0, MOST), min_size=1, max_size=2), min_size=count, max_size=count),
        st.lists(st.tuples(MS, MS), min_size=count, max_size=count),
        st.lists(MS, min_size=count + 1, max_size=count + 1),
    )
)


@settings(deadline=None)  # the first example imports networkx
@given(CASES, st.sets(st.integers(0, MOST - 1)))
def test_no_division_is_cheaper(case: Case, bound: set[int]) -> None:
    free = [node for number, node in enumerate(case.nodes) if number not in bound]
    found = cheapest_division(case.nodes, free, case.tariff)
    assert found <= set(free)
    least = min(case.total(set(some)) for some in chain.from_iterable(combinations(free, size) for size in range(len(free) + 1)))
    assert case.total(found) == least


@settings(deadline=None)
@given(CASES)
def test_the_same_every_time(case: Case) -> None:
    assert cheapest_division(case.nodes, case.nodes, case.tariff) == cheapest_division(case.nodes, case.nodes, case.tariff)


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


ROOT = Path(__file__).resolve().parents[2]


def _nodes() -> list[ir.Node]:
    return list(ir.serde.deserialize_model(onnx.shape_inference.infer_shapes(plain_network())).graph)


def test_nothing_is_weighed_without_limits() -> None:
    assert room_for(_nodes(), RegionLimits()) is None
    assert not any(oversize(node, RegionLimits()) for node in _nodes())


def test_a_node_weighs_what_it_has() -> None:
    room = room_for(_nodes(), RegionLimits(operations=3, macs=10**6))
    assert room is not None
    assert room.most == (3, 10**6, math.inf, math.inf)
    results = 18 * 6 * 10
    assert room.weights[0] == (1, results * 27, 4 * (18 * 27 + 18), 4 * results)  # the first convolution, in float32
    assert room.weights[1] == (1, 0, 0, 4 * results)  # ReLU


def test_an_operation_that_is_too_large_alone_has_a_reason() -> None:
    conv, relu = _nodes()[:2]
    assert texts_of(oversize(conv, RegionLimits(macs=29159))) == "it has 29,160 macs, and the machine's file allows 29,159 in a region"
    assert not oversize(conv, RegionLimits(macs=29160))
    assert texts_of(oversize(relu, RegionLimits(result_bytes=4319))) == "it has 4,320 result bytes, and the machine's file allows 4,319 in a region"


def _limited(folder: Path, limits: str) -> Path:
    """dpuv3 with limits, its kernels beside it."""
    (folder / "dpuv3").symlink_to(ROOT / "targets" / "dpuv3")
    path = folder / "dpuv3.yaml"
    path.write_text(f"{(ROOT / 'targets' / 'dpuv3.yaml').read_text()}\nregions: {limits}\n")
    return path


def test_a_network_in_several_regions_is_the_same(tmp_path: Path) -> None:
    onnx.save(plain_network(), tmp_path / "plain.onnx")
    samples = {"x": pictures(4)}
    whole = compile_file(tmp_path / "plain.onnx", Target("dpuv3"), tmp_path / "whole", {}, samples)
    cut = compile_file(tmp_path / "plain.onnx", Target(str(_limited(tmp_path, "{operations: 2}"))), tmp_path / "cut", {}, samples)
    assert (whole.regions, cut.regions) == (1, 4)
    given = {"x": pictures(8)[:, 0]}
    assert np.array_equal(whole.executor.run(given).outputs["y"], cut.executor.run(given).outputs["y"])


def test_a_limit_that_no_region_keeps_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="E0105 a region with at most 0 macs cannot be"):
        load_machine(str(_limited(tmp_path, "{macs: 0}")))


def test_a_region_pays_where_it_saves_time() -> None:
    assert pays(Price(host=3.0, machine=1.0, border=1.9))
    assert not pays(Price(host=3.0, machine=1.0, border=2.0))
