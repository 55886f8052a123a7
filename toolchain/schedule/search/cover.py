"""Covers: disjoint groups of a region's operations at the least sum of prices, an operation in no group runs alone; convex sets in the precedence
graph, and orders that keep sets together.

Three ways: greedily, by shortest paths between barriers (Xing et al. 2019, algorithm 2), and the optimum by dynamic programming
over the frontier of the graph.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import networkx as nx

from toolchain.schedule.regions.region import Region

MOST_FRONTIERS = 1 << 14
"""Sets of finished operations that are kept for each number of them; with more, the dearest are dropped, and the cover is no proven optimum."""
Group = tuple[int, ...]


def operation_graph(region: Region) -> "nx.DiGraph[int]":
    """Nodes: operations by index. Edges: from each to those that read some of its result."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(len(region.operations)))
    readers: dict[str, list[int]] = {}
    for index, bound in enumerate(region.operations):
        for root in dict.fromkeys(region.stands_in(tensor)[0] for name, tensor in bound.tensors.items() if name != "y"):
            readers.setdefault(root, []).append(index)
    for index, bound in enumerate(region.operations):
        made, _ = region.stands_in(bound.tensors["y"])
        graph.add_edges_from((index, reader) for reader in readers.get(made, ()) if reader > index)
    return graph


def is_convex(graph: "nx.DiGraph[int]", members: Collection[int]) -> bool:
    """Whether no path leaves the members and comes back, so that they can run one after the other."""
    inside, first, last = set(members), min(members), max(members)
    seen: set[int] = set()
    left = [reader for member in sorted(inside) for reader in graph.successors(member) if reader not in inside]
    while left:
        node = left.pop()
        if node not in seen and first < node < last:  # indices follow the order of the region, in which every operation can run
            seen.add(node)
            readers = set(graph.successors(node))
            if readers & inside:
                return False
            left += readers
    return True


def contracted(graph: "nx.DiGraph[int]", sets: Iterable[Collection[int]]) -> "nx.DiGraph[tuple[int, ...]] | None":
    """The graph with each set, and each operation outside them, as one node: its members in order. None where sets wait for each other.

    sets: disjoint."""
    block = {node: (node,) for node in graph}
    for members in sets:
        own = tuple(sorted(members))
        block |= dict.fromkeys(own, own)
    found: nx.DiGraph[tuple[int, ...]] = nx.DiGraph()
    found.add_nodes_from(block.values())
    found.add_edges_from((block[a], block[b]) for a, b in graph.edges if block[a] != block[b])
    return found if nx.is_directed_acyclic_graph(found) else None


def given_order(blocks: "nx.DiGraph[tuple[int, ...]]") -> tuple[int, ...]:
    """The operations as near to the region's order as their blocks allow."""
    return _flat(nx.lexicographical_topological_sort(blocks, key=_first))


def breadth_order(blocks: "nx.DiGraph[tuple[int, ...]]") -> tuple[int, ...]:
    """Level by level: blocks of all branches at the same distance from the inputs stand beside each other."""
    return _flat(block for level in nx.topological_generations(blocks) for block in sorted(level))


def depth_order(graph: "nx.DiGraph[int]") -> tuple[int, ...]:
    """Branch by branch, the shorter ones first: an operation that joins branches stands behind the longest of them."""
    level = {node: depth for depth, nodes in enumerate(nx.topological_generations(graph)) for node in nodes}
    found: dict[int, None] = {}
    waiting = _shorter_last((node for node in graph if not graph.out_degree(node)), level)
    while waiting:
        before = _shorter_last((node for node in graph.predecessors(waiting[-1]) if node not in found), level)
        waiting += before
        if not before:
            found[waiting.pop()] = None
    return tuple(found)


def _shorter_last(nodes: Iterable[int], level: Mapping[int, int]) -> list[int]:
    """As a stack: its last one is looked at first."""
    return sorted(nodes, key=lambda node: (level[node], node), reverse=True)


def _first(block: tuple[int, ...]) -> int:
    return block[0]


def _flat(blocks: Iterable[Sequence[int]]) -> tuple[int, ...]:
    return tuple(member for block in blocks for member in block)


@dataclass(frozen=True)
class Problem:
    """graph: of operations by index, with an edge to each reader. alone: cycles of each operation. groups: cycles of those that may be chosen."""

    graph: "nx.DiGraph[int]"
    alone: Mapping[int, float]
    groups: Mapping[Group, float]

    def cycles(self, chosen: Iterable[Group]) -> float:
        """The sum of a cover's prices."""
        own = list(chosen)
        inside = {member for group in own for member in group}
        return sum(self.groups[group] for group in own) + sum(cycles for index, cycles in self.alone.items() if index not in inside)

    def saved(self, group: Group) -> float:
        """Cycles that a group saves against its operations alone."""
        return sum(self.alone[member] for member in group) - self.groups[group]

    @cached_property
    def worthwhile(self) -> list[Group]:
        """Groups that save cycles, in the order of their first operation, the largest first."""
        return sorted((group for group in self.groups if self.saved(group) > 0), key=lambda group: (group[0], -len(group), group))


@dataclass(frozen=True)
class Cover:
    """groups: in order. cycles: the sum of all prices. optimal: whether no other cover is cheaper."""

    groups: tuple[Group, ...]
    cycles: float
    optimal: bool = False


def greedy_cover(problem: Problem) -> Cover:
    """Takes the first group that saves cycles at each operation, the largest of them; whatever it hides from later operations is lost."""
    chosen: list[Group] = []
    taken: set[int] = set()
    for group in problem.worthwhile:
        if taken.isdisjoint(group) and contracted(problem.graph, [*chosen, group]) is not None:
            chosen.append(group)
            taken.update(group)
    return _cover(problem, chosen)


def path_cover(problem: Problem) -> Cover:
    """Shortest paths along the chains between barriers; at each barrier the group that crosses it and lowers the sum most, where one does.

    A barrier is an operation with several operands from others, or a tensor with several readers. A group across it takes operations out of several
    chains, so that those are solved again without them: an addition is computed once, with one of its branches. Where the greedy cover is cheaper,
    that one.
    """
    chains = _chains(problem.graph)
    of = {node: number for number, chain in enumerate(chains) for node in chain}
    inner = [group for group in problem.worthwhile if len({of[member] for member in group}) == 1]
    crossing = [group for group in problem.worthwhile if len({of[member] for member in group}) > 1]
    paths = {number: _path(problem, chain, inner, frozenset()) for number, chain in enumerate(chains)}
    chosen: list[Group] = []
    while True:
        gains: list[tuple[float, Group]] = []
        taken = frozenset(member for group in chosen for member in group)
        for group in crossing:
            if taken.isdisjoint(group) and contracted(problem.graph, [*chosen, group, *_inside(paths, taken | {*group})]) is not None:
                touched = sorted({of[member] for member in group})
                after = sum(_path(problem, chains[number], inner, taken | {*group})[0] for number in touched)
                gains.append((sum(paths[number][0] for number in touched) - after - problem.groups[group], group))
        best = max(gains, key=lambda gain: (gain[0], gain[1]), default=(0.0, ()))
        if best[0] <= 0:
            break
        chosen.append(best[1])
        taken = taken | {*best[1]}
        paths |= {number: _path(problem, chains[number], inner, taken) for number in sorted({of[member] for member in best[1]})}
    found = _cover(problem, [*chosen, *(group for _, groups in paths.values() for group in groups)])
    return min(found, greedy_cover(problem), key=lambda cover: cover.cycles)


def _inside(paths: Mapping[int, tuple[float, Sequence[Group]]], taken: frozenset[int]) -> list[Group]:
    """The groups along chains that another one leaves whole."""
    return [group for _, groups in paths.values() for group in groups if not taken & {*group}]


def _chains(graph: "nx.DiGraph[int]") -> list[list[int]]:
    """Paths whose operations each have one operand from others and one reader, but for their ends; every operation is in one."""
    found: list[list[int]] = []
    at: dict[int, list[int]] = {}
    for node in sorted(graph):
        makers = list(graph.predecessors(node))
        if len(makers) == 1 and graph.out_degree(makers[0]) == 1:
            chain = at[makers[0]]
            chain.append(node)
        else:
            chain = [node]
            found.append(chain)
        at[node] = chain
    return found


def _path(problem: Problem, chain: Sequence[int], inner: Sequence[Group], without: Collection[int]) -> tuple[float, list[Group]]:
    """The cheapest way along a chain without some of its operations: cycles, and groups."""
    ends: dict[int, list[Group]] = {}
    for group in inner:
        ends.setdefault(group[-1], []).append(group)
    best: list[tuple[float, list[Group]]] = [(0.0, [])]
    for place, node in enumerate(chain):
        if node in without:
            best.append(best[place])
            continue
        cycles, groups = best[place]
        found = cycles + problem.alone[node], groups
        for group in ends.get(node, ()):
            first = place + 1 - len(group)
            if first >= 0 and tuple(chain[first : place + 1]) == group and not any(member in without for member in group):
                cycles, groups = best[first]
                if cycles + problem.groups[group] < found[0]:
                    found = cycles + problem.groups[group], [*groups, group]
        best.append(found)
    return best[-1]


def optimal_cover(problem: Problem) -> Cover:
    """The cheapest cover: over sets of finished operations that grow by an operation, or a group, whose operands are finished."""
    nodes = sorted(problem.graph)
    bit = {node: 1 << place for place, node in enumerate(nodes)}
    needs = {node: sum(bit[maker] for maker in problem.graph.predecessors(node)) for node in nodes}
    moves: list[tuple[int, int, float, Group]] = []
    for group, cycles in [*(((node,), problem.alone[node]) for node in nodes), *((group, problem.groups[group]) for group in problem.worthwhile)]:
        own = sum(bit[member] for member in group)
        outside = 0
        for member in group:
            outside |= needs[member]
        moves.append((own, outside & ~own, cycles, group))
    starting: dict[int, list[tuple[int, int, float, Group]]] = {node: [] for node in nodes}
    for move in moves:
        starting[move[3][0]].append(move)
    levels: list[dict[int, tuple[float, int, Group]]] = [{} for _ in range(len(nodes) + 1)]
    levels[0][0] = 0.0, 0, ()
    whole = True
    for count, level in enumerate(levels):
        if len(level) > MOST_FRONTIERS:
            whole = False
            level = dict(sorted(level.items(), key=lambda item: (item[1][0], item[0]))[:MOST_FRONTIERS])
            levels[count] = level
        for done, (cycles, _, _) in level.items():
            for node in _ready(nodes, bit, needs, done):
                for own, outside, price, group in starting[node]:
                    if not own & done and not outside & ~done:
                        _keep(levels[count + len(group)], done | own, (cycles + price, done, group))
    chosen: list[Group] = []
    done = (1 << len(nodes)) - 1
    for count in range(len(nodes), 0, -1):
        if done.bit_count() == count:
            _, before, group = levels[count][done]
            chosen += [group] * (len(group) > 1)
            done = before
    found = _cover(problem, chosen)
    return Cover(found.groups, found.cycles, whole)


def _ready(nodes: Sequence[int], bit: Mapping[int, int], needs: Mapping[int, int], done: int) -> Iterable[int]:
    """Operations whose operands are finished, and the first of every group that can be next is one of them."""
    return (node for node in nodes if not bit[node] & done and not needs[node] & ~done)


def _keep(level: dict[int, tuple[float, int, Group]], state: int, way: tuple[float, int, Group]) -> None:
    if state not in level or way < level[state]:
        level[state] = way


def _cover(problem: Problem, groups: Iterable[Group]) -> Cover:
    chosen = tuple(sorted(groups))
    return Cover(chosen, problem.cycles(chosen))


COVERS = {"greedy": greedy_cover, "paths": path_cover, "optimal": optimal_cover}
