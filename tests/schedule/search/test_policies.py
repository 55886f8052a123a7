"""Moves propose drafts that can run, where they could help. Policies by name: the toolchain's, and those that an installed package brings."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.operations.made import load_machine
from tests.schedule.search.made_graphs import inception, space_on
from toolchain.schedule.compile_operation import compile_operation
from toolchain.schedule.compile_region import compile_region, search_schedule
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options
from toolchain.schedule.regions.region import Region
from toolchain.schedule.search.contest import Trial
from toolchain.schedule.search.cover import depth_order, optimal_cover
from toolchain.schedule.search.draft import Draft, Space
from toolchain.schedule.search.policies import (
    OWN,
    Move,
    branches,
    kernels_moved,
    levels,
    neighbours_swapped,
    policy_named,
    retiled,
    sets_together,
)
from toolchain.spec.errors import UserError
from toolchain.spec.evaluate import fold
from toolchain.spec.expr import parse_expr
from toolchain.spec.search_policies import POLICIES, check_policy

VTA = load_machine("vta")

PLUGIN = """
def backwards(space):
    order = tuple(sorted(space.graph, key=lambda node: (len(list(space.graph.predecessors(node))) > 0, node == 1, node)))
    yield space.first
    yield type(space.first)(order, origin="the first branch last")
"""


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


def test_branches_propose_an_order_that_was_not_tried(space: Space) -> None:
    """The block of the fixture has its shorter branches first; level by level it has not."""
    assert driven(branches(space, None), []) == ([], None)
    operations = space.region.operations
    other = replace(space, region=replace(space.region, operations=tuple(operations[index] for index in (0, 1, 2, 4, 6, 3, 5, 7))))
    (first, draft), best = driven(branches(other, None), [10, 9])
    assert first == other.first
    assert draft.order == depth_order(other.graph)
    assert best == Trial(draft, 9)
    assert driven(branches(other, best), []) == ([], best)


def test_a_region_in_levels_already_has_no_other_order(space: Space) -> None:
    chain = replace(space, region=replace(space.region, operations=space.region.operations[:2]))
    assert driven(levels(chain), [1]) == ([], None)
    assert driven(sets_together(chain, None, optimal_cover), [1]) == ([], None)
    assert driven(neighbours_swapped(chain, None), [1]) == ([], None)


def test_moves_keep_the_last_rows_first() -> None:
    region = inception(4)
    machine = load_machine("dpuv3")
    own = Space(machine, load_kernels(machine), region, Options())
    best = Trial(replace(own.first, backward=(1, 2)), 9)
    drafts = [draft for move in (levels, branches, neighbours_swapped) for draft in driven(move(own, best), [9])[0]]
    assert drafts
    assert all(draft.backward == (1, 2) for draft in drafts)


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


def streamed_or_copied(own: Region) -> tuple[Space, Space]:
    """Two kernels for convolutions on dpuv3, and the copying one alone. The streaming one is as quick for each convolution or quicker, so the graph
    names it; only the copying one, whose tiles are smaller, can leave tensors on chip."""
    machine = load_machine("dpuv3")
    known = load_kernels(machine)
    plain, others = known["conv2d"], {name: kernel for name, kernel in known.items() if kernel.computes != "conv2d"}
    streaming = replace(plain, name="streaming", places=tuple(replace(place, whole=None) for place in plain.places))
    copying = replace(plain, name="copying", where=(*plain.where, fold(parse_expr("oc <= 1", lambda _line, _column: plain.span))))
    named = tuple(replace(bound, kernel="streaming" if bound.operation.kind.name == "conv2d" else "") for bound in own.operations)
    both = Space(machine, {"streaming": streaming, "copying": copying, **others}, replace(own, operations=named), Options())
    return both, Space(machine, {"copying": copying, **others}, own, Options())


@pytest.mark.parametrize(("chain", "effort"), [(True, Options().effort), (False, 4)])
def test_a_kernel_that_is_slower_alone_is_found_where_the_whole_is_quicker(chain: bool, effort: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Space, "copied_rows", ())  # the first draft alone is tried backward, and with its kernels there
    block = inception(4)
    own = replace(block, operations=block.operations[2:4], inputs=("x",), outputs=("b",)) if chain else block
    both, alone = streamed_or_copied(own)
    for bound in own.operations:
        if bound.operation.kind.name == "conv2d":
            slow, quick = (compile_operation(both.machine, both.kernels[name], bound.operation, timed=1).cycles for name in ("copying", "streaming"))
            assert quick <= slow
    found, _ = search_schedule(both.machine, both.kernels, both.region, Options(effort=effort))
    reached = compile_region(both.machine, both.kernels, both.region, Options(), found).cycles
    others = Options(effort=effort - 1)  # one trial went to the other kernel
    assert reached == compile_region(alone.machine, alone.kernels, alone.region, others).cycles
    assert reached < 0.8 * compile_region(both.machine, both.kernels, both.region, Options(effort=1)).cycles


def test_operations_alike_get_another_tiling_together(space: Space) -> None:
    """A tiling that helps stays, and the next draft goes on from it."""
    drafts, best = driven(retiled(space, None), [10, 9, 11])
    assert drafts[0] == space.first
    kept = dict(drafts[1].tiles)
    assert {*kept.values()} == {1}
    (alike,) = {space.clock.choice.key(space.problems[index]) for index in kept}
    assert [*kept] == [index for index, problem in enumerate(space.problems) if space.clock.choice.key(problem) == alike]
    assert all({*kept} <= {*dict(draft.tiles)} for draft in drafts[2:])
    assert len({draft.tiles for draft in drafts}) == len(drafts)
    assert best == Trial(drafts[1], 9)


def test_operations_whose_tiling_changes_nothing_have_one_turn(space: Space) -> None:
    """The last trial's cycles are those of all that follow, so every group of alike operations is left after one."""
    drafts, _ = driven(retiled(space, None), [10, 10])
    assert {number for draft in drafts for _, number in draft.tiles} == {1}
    assert len(drafts) - 1 == len({space.clock.choice.key(problem) for problem in space.problems})


def test_other_tilings_are_planned_and_never_slower() -> None:
    space = space_on("vta")
    plain = compile_region(space.machine, space.kernels, space.region, Options(search="greedy"))
    schedule, trials = search_schedule(space.machine, space.kernels, space.region, Options(search="retile", effort=12))
    assert compile_region(space.machine, space.kernels, space.region, Options(), schedule).cycles <= plain.cycles
    tiled = [trial for trial in trials if trial.draft.tiles]
    assert len({trial.cycles for trial in tiled}) > 2


def test_the_names_are_those_of_the_functions() -> None:
    assert tuple(OWN) == POLICIES
    assert all(policy_named(name) is OWN[name] for name in POLICIES)


def test_an_unknown_policy_suggests_the_nearest() -> None:
    with pytest.raises(UserError, match=r"E1202 there is no search policy 'covr'.*did you mean 'cover'"):
        check_policy("covr")


def test_a_package_brings_a_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acme_search.py").write_text(PLUGIN)
    info = tmp_path / "acme_search-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-search\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tilewright.search]\nbackwards = acme_search:backwards\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert check_policy("backwards") == "backwards"
    space = space_on("vta")
    schedule, trials = search_schedule(space.machine, space.kernels, space.region, Options(search="backwards", effort=3))
    assert [trial.draft.origin for trial in trials] == ["greedy", "the first branch last"]
    assert schedule.region == "block"
