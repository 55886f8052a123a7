"""The precedence graph of a region's operations: convex sets, and orders that keep sets together."""

from collections.abc import Collection, Iterable, Sequence

import networkx as nx

from toolchain.schedule.regions.region import Region


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
    level: dict[tuple[int, ...], int] = {}
    block: tuple[int, ...]
    for block in nx.topological_sort(blocks):
        level[block] = 1 + max((level[before] for before in blocks.predecessors(block)), default=-1)
    return _flat(block for _, block in sorted((depth, block) for block, depth in level.items()))


def _first(block: tuple[int, ...]) -> int:
    return block[0]


def _flat(blocks: Iterable[Sequence[int]]) -> tuple[int, ...]:
    return tuple(member for block in blocks for member in block)
