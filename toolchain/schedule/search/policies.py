"""Policies: each proposes drafts of a region's schedule in an order of its own, by moves, which are changes of a draft where they could help. No
move has a threshold; exact cycles decide.

Each move is a generator of drafts that is told how they did, and returns the best trial so far, None before there was any.
"""

import itertools
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from toolchain.schedule.options import Options
from toolchain.schedule.search.contest import Policy, Trial
from toolchain.schedule.search.cover import Cover, Problem, breadth_order, contracted, depth_order, given_order, optimal_cover, path_cover
from toolchain.schedule.search.draft import Draft, Space, adjacent
from toolchain.schedule.search.prices import Prices
from toolchain.schedule.search.subgraphs import Coarse, coarse_drafts
from toolchain.schedule.search.templates import Embedding, find_embeddings, fusion_graph, load_templates
from toolchain.spec.search_policies import check_policy, foreign_policies

Move = Generator[Draft, Trial, "Trial | None"]


def levels(space: Space, best: Trial | None = None) -> Move:
    """Reorder: operations of all branches at the same distance from the inputs one after the other."""
    plain = contracted(space.graph, ())
    assert plain is not None
    order = breadth_order(plain)
    if order == space.first.order:
        return best
    best = best or (yield space.first)
    return (yield from _tried(space, best, [best.draft.reordered(order, "level by level")]))


def branches(space: Space, best: Trial | None) -> Move:
    """Reorder: branch by branch, the shorter ones first, so that what joins them takes turns with the longest."""
    order = depth_order(space.graph)
    known = {space.first.order, *([best.draft.order] if best else [])}
    if order in known:
        return best
    best = best or (yield space.first)
    return (yield from _tried(space, best, [best.draft.reordered(order, "shorter branches first")]))


def sets_together(space: Space, best: Trial | None, solve: Callable[[Problem], Cover]) -> Move:
    """Fuse: the groups of a cover stand together, where some embedding of a template does not do so in the drafts before."""
    known = [space.first.order, *([best.draft.order] if best else [])]
    found = find_embeddings(load_templates(space.machine), fusion_graph(space.region))
    if all(adjacent(members, order) for _, members in found for order in known):
        return best
    groups = solve(cover_problem(Prices(space), found)).groups
    blocks = contracted(space.graph, groups)
    assert blocks is not None
    told = f"{len(groups)} groups of a cover"
    orders = {f"{told}, level by level": breadth_order(blocks), f"{told}, branch by branch": given_order(blocks)}
    best = best or (yield space.first)
    return (yield from _tried(space, best, [best.draft.reordered(order, origin) for origin, order in orders.items()]))


def coarse(space: Space, best: Trial | None) -> Move:
    """Fuse and reorder: GraphTurbo's sub-graphs, each of whose operations may share a loop over tiles."""
    return (yield from _tried(space, best, list(coarse_drafts(space))))


def cover_problem(prices: Prices, found: Sequence[Embedding]) -> Problem:
    """The cover problem of these embeddings; those that cannot be a region of their own are left out. Raises UserError where an operation cannot."""
    alone = {index: prices.of((index,)) for index in prices.space.graph}
    groups = {members: price for _, members in found if (price := prices.of(members)) is not None}
    return Problem(prices.space.graph, {index: price for index, price in alone.items() if price is not None}, groups)


def kernels_moved(space: Space, best: Trial | None) -> Move:
    """Choose another kernel: all operations that one kernel does, by another one that could."""
    moves = dict.fromkeys((space.problems[index].kernel.name, name) for index, names in space.choices.items() for name in names)
    for old, new in moves:
        best = best or (yield space.first)
        changed = {index: new for index, names in space.choices.items() if new in names and space.problems[index].kernel.name == old}
        kernels = tuple(sorted({**dict(best.draft.kernels), **changed}.items()))
        best = yield from _tried(space, best, [replace(best.draft, kernels=kernels, origin=f"kernel '{new}' in place of '{old}'")])
    return best


def neighbours_swapped(space: Space, best: Trial | None) -> Move:
    """Reorder: two operations that stand next to each other and wait for neither, those first for which the busiest unit waits longest."""
    done: set[tuple[int, ...]] = set()
    while True:
        order = (best.draft if best else space.first).order
        swaps = [other for other in _swaps(space, order) if other[0] not in done]
        if not swaps:
            return best
        if best is None:
            best = yield space.first
        waited = best.waited
        other, pair = max(swaps, key=lambda swap: sum(waited.get(member, 0.0) for member in swap[1]))
        done.add(other)
        first, second = (space.region.operations[index].operation.name for index in pair)
        best = yield from _tried(space, best, [best.draft.reordered(other, f"'{second}' before '{first}'")])


def _swaps(space: Space, order: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], tuple[int, int]]]:
    """Orders with two neighbours swapped, and these."""
    for place, pair in enumerate(itertools.pairwise(order)):
        if not space.graph.has_edge(*pair):
            yield (*order[:place], pair[1], pair[0], *order[place + 2 :]), pair


def retiled(space: Space, best: Trial | None) -> Move:
    """Retile: all operations that are alike by another tiling. Those that take longer by the estimate have more turns; those whose tiling changes no
    cycle, as the group that they are in chooses its own, have no second one."""
    others = _other_tilings(space)
    turns = dict.fromkeys(others, 0)
    while turns:
        alike = max(turns, key=lambda members: others[members].cycles / (turns[members] + 1))
        number = turns[alike] = turns[alike] + 1
        best = best or (yield space.first)
        tiles = tuple(sorted({**dict(best.draft.tiles), **dict.fromkeys(alike, number)}.items()))
        name = space.region.operations[alike[0]].operation.name
        more = f" and {len(alike) - 1} like it" if len(alike) > 1 else ""
        trial = yield replace(best.draft, tiles=tiles, origin=f"tiling {number} of '{name}'{more}")
        if trial.cycles == best.cycles or number == others[alike].count:
            del turns[alike]
        if trial.cycles < best.cycles:
            best = trial
    return best


@dataclass(frozen=True)
class _Others:
    """Other tilings of operations that are alike. cycles: of all of these operations together, by the estimate of the best tiling."""

    count: int
    cycles: float


def _other_tilings(space: Space) -> dict[tuple[int, ...], _Others]:
    """By operations that are alike, where they have other tilings."""
    choice, streams, found = space.clock.choice, space.options.streams, dict[Hashable, list[int]]()
    for index, problem in enumerate(space.problems):
        found.setdefault(choice.key(problem), []).append(index)
    others: dict[tuple[int, ...], _Others] = {}
    for members in found.values():
        problem = space.problems[members[0]]
        if count := len(choice.others(problem, streams)):
            others[tuple(members)] = _Others(count, len(members) * choice.best(problem, streams).estimate)
    return others


def _tried(space: Space, best: Trial | None, drafts: Sequence[Draft]) -> Move:
    """The best trial of these, the first draft and those before."""
    for draft in drafts:
        if best is None:
            best = yield space.first
        trial = yield draft
        if trial.cycles < best.cycles:
            best = trial
    return best


def greedy(_: Space) -> Generator[Draft, Trial, None]:
    """The first draft alone: the region's own order, with kernels as partitioning chose them."""
    yield from ()


def climb(space: Space) -> Generator[Draft, Trial, None]:
    """The order by levels, that with shorter branches first, other kernels, then neighbours of different branches swapped where the busiest unit
    waits."""
    yield from _in_turn(space, levels, branches, kernels_moved, neighbours_swapped)


def cover(space: Space) -> Generator[Draft, Trial, None]:
    """As `climb`, with orders in which the groups of a cover stand together: the cover by shortest paths (Xing et al. 2019, algorithm 2)."""
    yield from _in_turn(space, levels, branches, partial(sets_together, solve=path_cover), kernels_moved, neighbours_swapped)


def optimal(space: Space) -> Generator[Draft, Trial, None]:
    """As `cover`, with the cheapest cover that there is."""
    yield from _in_turn(space, levels, branches, partial(sets_together, solve=optimal_cover), kernels_moved, neighbours_swapped)


def subgraphs(space: Space) -> Generator[Draft, Trial, None]:
    """Coarse sub-graphs whose instances fit the memory of a core, in the orders of these instances (Zhao et al. 2023, section 3); then as `climb`."""
    yield from _in_turn(space, coarse, levels, branches, kernels_moved, neighbours_swapped)


def retile(space: Space) -> Generator[Draft, Trial, None]:
    """As `climb`, with other tilings in place of swapped neighbours."""
    yield from _in_turn(space, levels, branches, kernels_moved, retiled)


def tiles_alone(space: Space) -> Generator[Draft, Trial, None]:
    """Other tilings of the first draft."""
    yield from _in_turn(space, retiled)


def _in_turn(space: Space, *moves: Callable[[Space, Trial | None], Move]) -> Generator[Draft, Trial, None]:
    """Each move goes on from the best trial of those before."""
    best: Trial | None = None
    for move in moves:
        best = yield from move(space, best)


OWN: Mapping[str, Policy] = MappingProxyType({policy.__name__: policy for policy in (greedy, climb, cover, optimal, subgraphs, retile)})


TOGETHER: Mapping[str, Policy] = MappingProxyType({retile.__name__: tiles_alone})
"""By policy, that for copies whose neighbours load at once: their programs are timed together, where loads get in each other's way."""


def draft_by_estimate(space: Space) -> Draft:
    """The draft that is taken where nothing is timed: the space's first, or by `search=subgraphs` that of the sub-graphs in its order."""
    return Coarse(space, ruled=False).first if space.options.search == subgraphs.__name__ else space.first


def plainly(options: Options) -> Options:
    """The options by which the space's first draft is taken where nothing is timed."""
    return replace(options, search=greedy.__name__) if options.search == subgraphs.__name__ else options


def policy_named(name: str) -> Policy:
    """One of the toolchain's, or of an installed package. Raises UserError E1202 for an unknown name."""
    return OWN[name] if check_policy(name) in OWN else foreign_policies()[name].load()
