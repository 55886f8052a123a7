"""Moves propose drafts that can run, where they could help."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.operations.made import load_machine
from tests.schedule.search.made_graphs import inception
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options
from toolchain.schedule.search.contest import Trial
from toolchain.schedule.search.cover import optimal_cover
from toolchain.schedule.search.draft import Draft, Space
from toolchain.schedule.search.moves import Move, kernels_moved, levels, neighbours_swapped, sets_together

VTA = load_machine("vta")


@pytest.fixture(scope="module")
def space() -> Space:
    return Space(VTA, load_kernels(VTA), inception(), Options())


def driven(move: Move, cycles: Sequence[float], waited: dict[int, float] | None = None) -> tuple[list[Draft], Trial | None]:
    """The drafts of a move whose trials take these cycles, the last of them from then on, and the best trial."""
    drafts: list[Draft] = []
    try:
        draft = next(move)
        while True:
            drafts.append(draft)
            draft = move.send(Trial(draft, cycles[min(len(drafts), len(cycles)) - 1], waited=waited or {}))
    except StopIteration as stop:
        return drafts, stop.value


def test_levels_follow_the_first_draft(space: Space) -> None:
    drafts, best = driven(levels(space), [10, 9])
    assert drafts[0] == space.first
    assert drafts[1].order == (0, 1, 2, 4, 6, 3, 5, 7)
    assert best
    assert best.draft == drafts[1]
    assert driven(levels(space), [9, 10])[1] == Trial(space.first, 9)


def test_a_region_in_levels_already_has_no_other_order(space: Space) -> None:
    chain = replace(space, region=replace(space.region, operations=space.region.operations[:2]))
    assert driven(levels(chain), [1]) == ([], None)
    assert driven(sets_together(chain, None, optimal_cover), [1]) == ([], None)
    assert driven(neighbours_swapped(chain, None), [1]) == ([], None)


def test_groups_of_a_cover_stand_together(space: Space) -> None:
    drafts, _ = driven(sets_together(space, None, optimal_cover), [1])
    assert len(drafts) >= 2
    for draft in drafts[1:]:
        assert all(draft.order.index(a) < draft.order.index(b) for a, b in space.graph.edges)


def test_swaps_begin_where_the_busiest_unit_waits(space: Space) -> None:
    drafts, _ = driven(neighbours_swapped(space, None), [1], {4: 7.0, 5: 1.0})
    first = space.first.order
    changed = [index for index, (a, b) in enumerate(zip(first, drafts[1].order, strict=True)) if a != b]
    assert 4 in {first[index] for index in changed}
    assert len(changed) == 2
    orders = [draft.order for draft in drafts]
    assert len(orders) == len(set(orders))
    assert all(order.index(a) < order.index(b) for order in orders for a, b in space.graph.edges)


def test_kernels_that_make_the_host_work_longer_are_left() -> None:
    machine = load_machine("dpuv3")
    own = Space(machine, load_kernels(machine), inception(4), Options())
    names = {new for others in own.choices.values() for new in others}
    assert "strips" not in names
    drafts, _ = driven(kernels_moved(own, None), [1])
    assert {kernel for draft in drafts for _, kernel in draft.kernels} == names
