"""Sets of nodes that can run as one: nothing outside a set lies on a way from one member to another."""

from collections.abc import Sequence


def convex_groups(before: Sequence[Sequence[int]], owners: Sequence[int]) -> list[list[int]]:
    """Joins owned nodes with the nodes of the same owner whose results they read, in order, wherever what comes of it is convex.

    before: for each node, in an order in which they can run, those whose results it reads. owners: of each node, 0 for none; the groups of owner 1
    are those that it would have alone, the others follow by number. Groups in order of their first nodes.
    """
    graph = _Contracted(before)
    for owner in sorted({*owners} - {0}):
        for node, makers in enumerate(before):
            for maker in makers:
                if owners[node] == owners[maker] == owner:
                    graph.join(maker, node)
    found: dict[int, list[int]] = {}
    for node, owner in enumerate(owners):
        if owner:
            found.setdefault(graph.root(node), []).append(node)
    return list(found.values())


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

    def join(self, maker: int, node: int) -> None:
        """Makes the two groups one unless a way from the first to the second leads through others."""
        one, other = self.root(maker), self.root(node)
        if one == other or self._around(one, other):
            return
        self.parents[other] = one
        self.after[one] = {root for reader in self.after[one] | self.after[other] if (root := self.root(reader)) != one}

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
