"""Policies: each proposes drafts of a region's schedule, with the moves that it knows, in an order of its own."""

from collections.abc import Callable, Generator, Mapping
from functools import partial
from types import MappingProxyType

from toolchain.schedule.search.contest import Policy, Trial
from toolchain.schedule.search.cover import optimal_cover, path_cover
from toolchain.schedule.search.draft import Draft, Space
from toolchain.schedule.search.moves import Move, kernels_moved, levels, neighbours_swapped, sets_together
from toolchain.spec.search_policies import check_policy, foreign_policies


def greedy(_: Space) -> Generator[Draft, Trial, None]:
    """The first draft alone: the region's own order, with kernels as partitioning chose them."""
    yield from ()


def climb(space: Space) -> Generator[Draft, Trial, None]:
    """The order by levels, other kernels, then neighbours of different branches swapped where the busiest unit waits."""
    yield from _in_turn(space, levels, kernels_moved, neighbours_swapped)


def cover(space: Space) -> Generator[Draft, Trial, None]:
    """As `climb`, with orders in which the groups of a cover stand together: the cover by shortest paths (Xing et al. 2019, algorithm 2)."""
    yield from _in_turn(space, levels, partial(sets_together, solve=path_cover), kernels_moved, neighbours_swapped)


def optimal(space: Space) -> Generator[Draft, Trial, None]:
    """As `cover`, with the cheapest cover that there is."""
    yield from _in_turn(space, levels, partial(sets_together, solve=optimal_cover), kernels_moved, neighbours_swapped)


def _in_turn(space: Space, *moves: Callable[[Space, Trial | None], Move]) -> Generator[Draft, Trial, None]:
    """Each move goes on from the best trial of those before."""
    best: Trial | None = None
    for move in moves:
        best = yield from move(space, best)


OWN: Mapping[str, Policy] = MappingProxyType({policy.__name__: policy for policy in (greedy, climb, cover, optimal)})


def policy_named(name: str) -> Policy:
    """One of the toolchain's, or of an installed package. Raises UserError E1202 for an unknown name."""
    return OWN[name] if check_policy(name) in OWN else foreign_policies()[name].load()
