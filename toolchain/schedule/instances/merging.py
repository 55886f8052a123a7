"""Sub-graphs grow by straight, diamond and branch merges as long as instances stay as large (GraphTurbo, algorithm 2).

A merge may not raise the factor by which a sub-graph is split: rule (i) for a producer and its consumer, rule (ii) for the middle and the exit of a
diamond. Nor may instances compute more again than they save in moves.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import networkx as nx

from toolchain.schedule.instances.network import Members, Network
from toolchain.schedule.instances.split_info import Levels, Split, best_split, worthwhile


@dataclass(frozen=True)
class Subgraph:
    """members: in order. split: of its outputs; None where no dimension lets an instance fit the local memory."""

    members: Members
    split: Split | None


@dataclass(frozen=True)
class Grouper:
    """ruled: whether rules (i) and (ii) decide, not only room and time. known: the best split of every set of operations that was looked at."""

    network: Network
    levels: Levels
    ruled: bool = True
    known: dict[Members, Split | None] = field(default_factory=dict[Members, "Split | None"])

    def best(self, members: Members) -> Split | None:
        if members not in self.known:
            self.known[members] = best_split(self.network, members, self.levels)
        return self.known[members]

    def factor(self, members: Members) -> float:
        """Infinite where no split lets an instance fit."""
        split = self.best(members)
        return math.inf if split is None else split.factor

    def follows(self, one: Members, other: Members) -> bool:
        """Rule (i): the later one is split as often as the earlier one at least, and both together no more often than it."""
        down = not self.ruled or self.factor(one) <= self.factor(other)
        return down and self._is_no_finer(_joined(one, other), self.factor(other))

    def closes(self, middle: "tuple[Members, ...]", last: Members) -> bool:
        """Rule (ii): all together are split no more often than the one that is split most."""
        return self._is_no_finer(_joined(*middle, last), max(self.factor(each) for each in (*middle, last)))

    def _is_no_finer(self, joined: Members, factor: float) -> bool:
        split = self.best(joined)
        if split is None or (self.ruled and split.factor > factor):
            return False
        return worthwhile(self.network, joined, split, self.levels)


def merged(network: Network, levels: Levels, ruled: bool = True) -> list[Subgraph]:
    """The sub-graphs that no merge changes any more, in the order of their first operations. ruled: as in Grouper."""
    grouper = Grouper(network, levels, ruled)
    graph: nx.DiGraph[Members] = nx.DiGraph()
    graph.add_nodes_from((index,) for index in range(len(network.works)))
    graph.add_edges_from(((one,), (other,)) for one, other in network.edges())
    while True:
        before = len(graph)
        for patterns in (straight, diamonds, branches):
            while (found := next(patterns(grouper, graph), None)) is not None:
                _merge(graph, found)
        if len(graph) == before:
            return [Subgraph(members, grouper.best(members)) for members in sorted(graph)]


def straight(grouper: Grouper, graph: "nx.DiGraph[Members]") -> Iterator[tuple[Members, ...]]:
    """A producer and a consumer that have no other one, where rule (i) lets them merge."""
    for one in _in_order(graph):
        others = list(graph.successors(one))
        if len(others) == 1 and graph.in_degree(others[0]) == 1 and grouper.follows(one, others[0]):
            yield one, others[0]


def diamonds(grouper: Grouper, graph: "nx.DiGraph[Members]") -> Iterator[tuple[Members, ...]]:
    """The middle and the exit of several paths from one entry, where rule (ii) lets them merge. The entry stays outside."""
    for last in _in_order(graph):
        middle = tuple(sorted(graph.predecessors(last)))
        entries = {entry for each in middle for entry in graph.predecessors(each)}
        alone = all(graph.out_degree(each) == 1 and graph.in_degree(each) == 1 for each in middle)
        if len(middle) > 1 and alone and len(entries) == 1 and grouper.closes(middle, last):
            yield *middle, last


def branches(grouper: Grouper, graph: "nx.DiGraph[Members]") -> Iterator[tuple[Members, ...]]:
    """One producer of an exit of several paths, which nothing else reads, where rule (i) lets them merge."""
    for last in _in_order(graph):
        makers = sorted(graph.predecessors(last))
        if len(makers) > 1:
            yield from ((one, last) for one in makers if graph.out_degree(one) == 1 and grouper.follows(one, last))


def _in_order(graph: "nx.DiGraph[Members]") -> list[Members]:
    return sorted(graph)


def _joined(*sets: Members) -> Members:
    return tuple(sorted(index for members in sets for index in members))


def _merge(graph: "nx.DiGraph[Members]", sets: tuple[Members, ...]) -> None:
    """In place. The sets form a convex one, as all of their readers but the last one's are inside."""
    joined = _joined(*sets)
    makers = {maker for each in sets for maker in graph.predecessors(each)} - {*sets}
    readers = {reader for each in sets for reader in graph.successors(each)} - {*sets}
    graph.remove_nodes_from(sets)
    graph.add_node(joined)
    graph.add_edges_from((maker, joined) for maker in sorted(makers))
    graph.add_edges_from((joined, reader) for reader in sorted(readers))
