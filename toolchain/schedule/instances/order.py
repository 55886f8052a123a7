"""Instances of sub-graphs, which of them wait for which, and orders in which they run (GraphTurbo, section 3.3)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import networkx as nx

from toolchain.schedule.instances.merging import Subgraph
from toolchain.schedule.instances.network import Box, Instance, Network, elements, meets
from toolchain.schedule.instances.split_info import instances

Item = tuple[int, int]
"""A sub-graph and the number of an instance of it."""


@dataclass(frozen=True)
class Pieces:
    """The instances of all sub-graphs. found: by item."""

    network: Network
    subgraphs: Sequence[Subgraph]
    found: Mapping[Item, Instance]

    def left(self, item: Item) -> dict[str, list[Box]]:
        """By tensor, the parts of the outputs that an instance leaves."""
        parts: dict[str, list[Box]] = {}
        for index in self.network.results(self.subgraphs[item[0]].members):
            work = self.network.works[index]
            if index in self.found[item].made:
                n, c, h, w = self.found[item].made[index]
                parts.setdefault(work.tensor, []).append((n, range(c.start + work.channel, c.stop + work.channel), h, w))
        return parts

    def size(self, item: Item) -> int:
        """Elements that it leaves."""
        return sum(elements(box) for boxes in self.left(item).values() for box in boxes)


def pieces(network: Network, subgraphs: Sequence[Subgraph]) -> Pieces:
    """A sub-graph that no split lets fit has one instance."""
    found: dict[Item, Instance] = {}
    for number, each in enumerate(subgraphs):
        dimension, factor = (each.split.dimension, each.split.factor) if each.split else (0, 1)
        found |= {(number, place): one for place, one in enumerate(instances(network, each.members, dimension, factor))}
    return Pieces(network, subgraphs, found)


def waits(own: Pieces) -> "nx.DiGraph[Item]":
    """The edges between sub-graphs without those between instances that share no element."""
    graph: nx.DiGraph[Item] = nx.DiGraph()
    graph.add_nodes_from(own.found)
    made: dict[str, list[tuple[Item, Box]]] = {}
    for item in own.found:
        for tensor, boxes in own.left(item).items():
            made.setdefault(tensor, []).extend((item, box) for box in boxes)
    for item, instance in own.found.items():
        for tensor, needed in instance.taken.items():
            graph.add_edges_from((maker, item) for maker, box in made.get(tensor, ()) if maker[0] != item[0] and meets(box, needed))
    return graph


def breadth_first(graph: "nx.DiGraph[Item]") -> list[Item]:
    """All instances that wait for none, then those that wait for these alone, and so on."""
    return [item for level in nx.topological_generations(graph) for item in sorted(level)]


def depth_first(graph: "nx.DiGraph[Item]") -> list[Item]:
    """Algorithm 3: the instance that became ready last runs first."""
    return _by_turns(graph, lambda ready: len(ready) - 1)


def heaviest_first(graph: "nx.DiGraph[Item]", size: Callable[[Item], int]) -> list[Item]:
    """The ready instance that leaves most runs first; of equals the one that became ready last."""
    return _by_turns(graph, lambda ready: max(range(len(ready)), key=lambda place: (size(ready[place]), place)))


def _by_turns(graph: "nx.DiGraph[Item]", choose: Callable[[Sequence[Item]], int]) -> list[Item]:
    left = {item: graph.in_degree(item) for item in sorted(graph)}
    ready, order = [item for item, count in left.items() if not count], list[Item]()
    while ready:
        order.append(ready.pop(choose(ready)))
        for reader in sorted(graph.successors(order[-1])):
            left[reader] -= 1
            if not left[reader]:
                ready.append(reader)
    return order


def most_held(graph: "nx.DiGraph[Item]", order: Sequence[Item], size: Callable[[Item], int]) -> int:
    """The most elements that instances leave for others and that wait at the same time: what the shared memory has to hold."""
    place = {item: number for number, item in enumerate(order)}
    until = {item: max((place[reader] for reader in graph.successors(item)), default=place[item]) for item in order}
    held, most = dict[Item, int](), 0
    for now, item in enumerate(order):
        held[item] = size(item)
        most = max(most, sum(held.values()))
        held = {each: count for each, count in held.items() if until[each] > now}
    return most


def order_of_subgraphs(order: Sequence[Item]) -> list[int]:
    """Sub-graphs by the last of their instances, as a program runs them that ends one before it begins another."""
    last = {subgraph: place for place, (subgraph, _) in enumerate(order)}
    return sorted(last, key=last.__getitem__)
