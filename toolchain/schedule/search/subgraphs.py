"""Drafts whose operations stand in GraphTurbo's sub-graphs: coarse ones, whose instances fit the memory of a core, in orders of their instances."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import networkx as nx

from toolchain.schedule.compile_operation import TileChoice
from toolchain.schedule.instances.merging import Subgraph, merged
from toolchain.schedule.instances.network import Members
from toolchain.schedule.instances.order import Item, Pieces, breadth_first, depth_first, heaviest_first, most_held, order_of_subgraphs, pieces, waits
from toolchain.schedule.instances.region_network import levels_of, network_of
from toolchain.schedule.search.cover import contracted, given_order
from toolchain.schedule.search.draft import Draft, Space, Together

AXES = "nchw"


@dataclass(frozen=True)
class Coarse:
    """The sub-graphs of a region, each with the split of its outputs. ruled: merged by the paper's rules, else wherever instances fit and save
    time."""

    space: Space
    ruled: bool

    @cached_property
    def pieces(self) -> Pieces:
        """The instances of all sub-graphs. Raises UserError E1004 for an operation without a tile."""
        space, choice = self.space, TileChoice(self.space.options.contexts, 1)
        planned = [(problem, choice.best(problem, space.options.streams)) for problem in space.problems]
        network = network_of(space.machine, space.region, planned)
        return pieces(network, merged(network, levels_of(space.machine, network, planned, space.options.contexts), self.ruled))

    @property
    def first(self) -> Draft:
        """The sub-graphs in the region's order."""
        return self._draft(given_order(self._blocks), "in the region's order")

    def orders(self) -> Iterator[Draft]:
        """The sub-graphs in orders of their instances, those first for which least waits in the shared memory."""
        graph = waits(self.pieces)
        orders = {
            "by instances breadth first": breadth_first(graph),
            "by instances depth first": depth_first(graph),
            "by the heaviest instances": heaviest_first(graph, self.pieces.size),
        }
        held = {told: most_held(graph, order, self.pieces.size) * self.pieces.network.element for told, order in orders.items()}
        for told in sorted(orders, key=held.__getitem__):
            yield self._draft(self._operations(orders[told]), f"{told}, {held[told]:,} B between them at most")

    @cached_property
    def _blocks(self) -> "nx.DiGraph[Members]":
        blocks = contracted(self.space.graph, [each.members for each in self.pieces.subgraphs])
        assert blocks is not None, "merges leave no cycle"
        return blocks

    def _operations(self, order: Sequence[Item]) -> tuple[int, ...]:
        """The operations of the sub-graphs, as near to the order of instances as their blocks allow."""
        place = {self.pieces.subgraphs[number].members: at for at, number in enumerate(order_of_subgraphs(order))}
        found: Iterable[Members] = nx.lexicographical_topological_sort(self._blocks, key=place.__getitem__)
        return tuple(index for members in found for index in members)

    def _draft(self, order: tuple[int, ...], told: str) -> Draft:
        whole = self.pieces.subgraphs
        together = tuple(each.members for each in whole if len(each.members) > 1)
        return Draft(order, together=together, origin=f"{'' if self.ruled else 'free '}sub-graphs {told}", subgraphs=tuple(map(self._told, whole)))

    def _told(self, each: Subgraph) -> Together:
        names, split = tuple(self.space.region.operations[index].operation.name for index in each.members), each.split
        return Together(names, AXES[split.dimension], split.factor, split.operations) if split else Together(names)


def coarse_drafts(space: Space) -> Iterator[Draft]:
    """Sub-graphs merged freely, by the paper's rules, and the free ones in other orders."""
    free = Coarse(space, ruled=False)
    yield free.first
    yield Coarse(space, ruled=True).first
    yield from free.orders()
