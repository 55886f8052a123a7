"""The cheapest division is that of all divisions tried one by one."""

from itertools import chain, combinations

import onnx_ir as ir
from hypothesis import given, settings
from hypothesis import strategies as st

from toolchain.passes.context import NodeCost, Tariff
from toolchain.passes.min_cut import cheapest_division

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
