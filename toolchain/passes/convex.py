"""Sets of nodes that can run as one: nothing outside a set lies on a way from one member to another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Weight = tuple[float, ...]
"""Of a node or a group, in several measures."""


@dataclass(frozen=True)
class Room:
    """The most that a group may weigh in each measure, and the weight of each node."""

    most: Weight
    weights: Sequence[Weight]


def convex_groups(before: Sequence[Sequence[int]], owners: Sequence[int], rooms: Mapping[int, Room] | None = None) -> list[list[int]]:
    """Joins owned nodes with the nodes of the same owner whose results they read, in order, wherever what comes of it is convex.

    before: for each node, in an order in which they can run, those whose results it reads. owners: of each node, 0 for none; the groups of owner 1
    are those that it would have alone, the others follow by number. rooms: by owner, where groups may not be of any size. Groups in order of
    their first nodes.
    """
    graph = _Contracted(before)
    for owner in sorted({*owners} - {0}):
        sizes = _Sizes((rooms or {}).get(owner))
        for node, makers in enumerate(before):
            for maker in makers:
                if owners[node] == owners[maker] == owner:
                    graph.join(maker, node, sizes)
    found: dict[int, list[int]] = {}
    for node, owner in enumerate(owners):
        if owner:
            found.setdefault(graph.root(node), []).append(node)
    return list(found.values())


class _Sizes:
    """The weights of groups, each at its root; without limits there are none."""

    def __init__(self, room: Room | None) -> None:
        self.most, self.weights = (room.most, [*room.weights]) if room else ((), [])

    def fit(self, one: int, other: int) -> bool:
        return not self.most or all(weight <= most for weight, most in zip(self._both(one, other), self.most, strict=True))

    def unite(self, one: int, other: int) -> None:
        if self.most:
            self.weights[one] = self._both(one, other)

    def _both(self, one: int, other: int) -> Weight:
        return tuple(a + b for a, b in zip(self.weights[one], self.weights[other], strict=True))


class _Contracted:
    """The graph with joined nodes as one."""

    def __init__(self, before: Sequence[Sequence[int]]) -> None:
        self.parents = list(range(len(before)))
        self.after: list[set[int]] = [set() for _ in before]
        for node, makers in enumerate(before):
            for maker in makers:
                self.after[maker].add(node)

    def root(self, node: int) -> int:
        while self.parents[node] != node:
            self.parents[node] = node = self.parents[self.parents[node]]
        return node

    def join(self, maker: int, node: int, sizes: "_Sizes") -> None:
        """Makes the two groups one unless a way from the first to the second leads through others, or they would be too large."""
        one, other = self.root(maker), self.root(node)
        if one == other or not sizes.fit(one, other) or self._around(one, other):
            return
        self.parents[other] = one
        self.after[one] = {root for reader in self.after[one] | self.after[other] if (root := self.root(reader)) != one}
        sizes.unite(one, other)

    def _around(self, one: int, other: int) -> bool:
        left = [root for reader in self.after[one] if (root := self.root(reader)) not in (one, other)]
        seen = set(left)
        while left:
            for reader in self.after[left.pop()]:
                root = self.root(reader)
                if root == other:
                    return True
                if root not in seen and root != one:
                    seen.add(root)
                    left.append(root)
        return False
