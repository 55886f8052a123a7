"""Every place in a region where a group template fits: subgraph isomorphism, algorithm 1 of Xing et al. (2019).

Candidates are filtered by kind and numbers, the search starts at the node of the template with the fewest, goes on along the template's edges breadth
first, and refines the candidates of each next node by the edges to the nodes that are matched already.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import networkx as nx

from toolchain.operations.operation import Operation
from toolchain.schedule.regions.region import Region
from toolchain.schedule.search.precedence import is_convex, operation_graph
from toolchain.schedule.search.templates import Template


class Embedding(NamedTuple):
    """members: operations by index, in order."""

    template: str
    members: tuple[int, ...]


@dataclass(frozen=True)
class FusionGraph:
    """The graph that templates are matched on. reads: an edge from each operation to each of its readers. shares: by operation, the others that read
    one of its operands."""

    operations: Sequence[Operation]
    reads: "nx.DiGraph[int]"
    shares: Mapping[int, frozenset[int]]

    @cached_property
    def readers(self) -> Mapping[int, frozenset[int]]:
        return {node: frozenset(self.reads.successors(node)) for node in self.reads}

    @cached_property
    def makers(self) -> Mapping[int, frozenset[int]]:
        return {node: frozenset(self.reads.predecessors(node)) for node in self.reads}


def fusion_graph(region: Region) -> FusionGraph:
    """The graph of a region's operations."""
    users: dict[str, set[int]] = {}
    for index, bound in enumerate(region.operations):
        for name, tensor in bound.tensors.items():
            if name != "y":
                users.setdefault(region.viewed(tensor), set()).add(index)
    shares = {index: frozenset[int]().union(*(own for own in users.values() if index in own)) - {index} for index in range(len(region.operations))}
    return FusionGraph([bound.operation for bound in region.operations], operation_graph(region), shares)


def find_embeddings(templates: Sequence[Template], graph: FusionGraph) -> list[Embedding]:
    """The embeddings of all templates, in their order: sets of operations that can run one after the other, each once for each template."""
    found: dict[Embedding, None] = {}
    for template in templates:
        for match in matches(template, graph):
            members = tuple(sorted(match.values()))
            if is_convex(graph.reads, members):
                found.setdefault(Embedding(template.name, members))
    return list(found)


def matches(template: Template, graph: FusionGraph) -> Iterator[dict[str, int]]:
    """By node of the template, the operation: every assignment, mirrored ones too."""
    admitted = {name: [k for k, operation in enumerate(graph.operations) if node.admits(operation)] for name, node in template.nodes.items()}
    start = min(admitted, key=lambda name: len(admitted[name]))
    yield from _extended(template, graph, {name: frozenset(own) for name, own in admitted.items()}, _breadth_first(template, start), {})


def _breadth_first(template: Template, start: str) -> list[str]:
    """The template's nodes from the start on, neighbours before others."""
    pairs = (*template.reads, *template.shares)
    found = [start]
    for name in found:
        found += dict.fromkeys(b for pair in pairs for a, b in (pair, pair[::-1]) if a == name and b not in found)
    return found


def _extended(
    template: Template, graph: FusionGraph, admitted: Mapping[str, frozenset[int]], order: Sequence[str], match: dict[str, int]
) -> Iterator[dict[str, int]]:
    """The assignments that go on with a partial one."""
    if len(match) == len(order):
        yield dict(match)
        return
    name = order[len(match)]
    for operation in sorted(_refined(template, graph, name, admitted[name], match)):
        yield from _extended(template, graph, admitted, order, {**match, name: operation})


def _refined(template: Template, graph: FusionGraph, name: str, candidates: frozenset[int], match: Mapping[str, int]) -> frozenset[int]:
    """The candidates with every edge that the template has to matched nodes."""
    found = candidates - frozenset(match.values())
    for maker, reader in template.reads:
        if reader == name and maker in match:
            found &= graph.readers[match[maker]]
        if maker == name and reader in match:
            found &= graph.makers[match[reader]]
    for pair in template.shares:
        for one, other in (pair, pair[::-1]):
            if other == name and one in match:
                found &= graph.shares[match[one]]
    return found
