"""Steps in order: what each needs is there, no slot is taken from who still reads it, and loads run ahead."""

import sys
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operations import made
from tests.schedule.convolutions import convolution
from tests.schedule.tiling.fused_chains import chain
from toolchain.schedule.form.shares import even_shares, tile_count
from toolchain.schedule.kernels.kernel_file import load_kernel, load_kernels
from toolchain.schedule.kernels.pools import Slot
from toolchain.schedule.kernels.problem import Problem, state_problem
from toolchain.schedule.tiling.order import Instance, _Slots, order_dealt, order_steps, order_tiles
from toolchain.schedule.tiling.tile_group import TileGroup, make_tile_group
from toolchain.schedule.tiling.tile_search import search_tiles
from toolchain.schedule.tiling.tiles import rank_tilings
from toolchain.spec.errors import UserError
from toolchain.spec.expr import Const
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine

MACHINE = load_machine("vta")
OPERATION = convolution((1, 96, 15, 14), (80, 3, 3), pads=(1, 1, 1, 1))
PROBLEM = state_problem(MACHINE, load_kernel(MACHINE, "conv2d"), OPERATION)


def simulated(problem: Problem, steps: list[Instance]) -> int:
    """Walks the steps with what each slot holds; how many loads there are."""
    places = {p.name: p for p in problem.kernel.places}
    held: dict[tuple[str, int], object] = {}
    loads = 0
    for item in steps:
        for name, address in item.slots.items():
            tile = {d: item.tile[d] for d in places[name].by}
            if item.step.kind in ("load", "start") and name == item.step.place:
                loads += item.step.kind == "load"
                held[name, address] = tile
            assert held[name, address] == tile, (item.step.kind, name)
    return loads


@pytest.mark.parametrize("contexts", [1, 2, 3])
def test_every_step_finds_its_tiles_in_their_slots(contexts: int) -> None:
    for tiling in rank_tilings(PROBLEM, contexts, 12):
        assert simulated(PROBLEM, order_steps(PROBLEM, tiling)) > 0


@pytest.mark.parametrize("streams", [2, 3, 8])
def test_streams_share_the_tiles_and_each_finds_its_own_in_slots_of_its_own(streams: int) -> None:
    tiling = rank_tilings(PROBLEM, 2, 12)[-1]
    shares = even_shares(tile_count(PROBLEM, tiling), streams)
    dealt = order_dealt(PROBLEM, tiling, shares, {number: {} for number in range(streams)})
    parts = [[item for stream, (_, item) in dealt if stream == number] for number in range(streams)]
    stores = [[dict(item.tile) for item in part if item.step.kind == "store"] for part in parts]
    assert [tile for part in stores for tile in part] == [dict(i.tile) for i in order_steps(PROBLEM, tiling) if i.step.kind == "store"]
    assert max(map(len, stores)) - min(map(len, stores)) <= 1
    assert all(simulated(PROBLEM, part) > 0 for part in parts if part)


def test_every_output_and_every_product_is_there_once() -> None:
    tiling = rank_tilings(PROBLEM, 2, 1)[0]
    steps = order_steps(PROBLEM, tiling)
    for kind, dims in (("store", ("oc", "oh", "ow")), ("compute", ("oc", "oh", "ow", "ic"))):
        volume = 0
        for item in steps:
            part = 1
            for d in dims if item.step.kind == kind else ():
                part *= item.tile[d][1]
            volume += part if item.step.kind == kind else 0
        whole = 1
        for d in dims:
            whole *= PROBLEM.extents[d]
        assert volume == whole


@pytest.mark.parametrize("backward", [("oh",), ("oc", "oh"), ("oc", "oh", "ow")])
def test_a_loop_that_runs_backward_begins_with_its_last_tile(backward: tuple[str, ...]) -> None:
    tiling = next(tiling for tiling in rank_tilings(PROBLEM, 2, 1 << 20) if all(tiling.sizes[name] < PROBLEM.extents[name] for name in backward))
    steps = order_steps(PROBLEM, replace(tiling, backward=backward))
    assert simulated(PROBLEM, steps) > 0
    own, plain = ([item.tile for item in found if item.step.kind == "store"] for found in (steps, order_steps(PROBLEM, tiling)))
    assert sorted(map(str, own)) == sorted(map(str, plain))
    for name in ("oc", "oh", "ow"):
        firsts = [tile[name][0] for tile in own]
        assert (firsts[0] == 0) == (name not in backward)
        assert firsts[-1] == (0 if name in backward else max(firsts))


def test_what_stays_on_chip_is_loaded_once() -> None:
    tiling = rank_tilings(PROBLEM, 2, 1)[0]
    steps = order_steps(PROBLEM, tiling)
    for place in PROBLEM.kernel.places:
        loads = [tuple(item.tile.items()) for item in steps if item.step.kind == "load" and item.step.place == place.name]
        if place.name in tiling.slots and tiling.slots[place.name] >= len(set(loads)):
            assert len(loads) == len(set(loads))


def test_loads_run_ahead_of_the_step_that_needs_them() -> None:
    orders = ([item.step.kind for item in order_steps(PROBLEM, tiling)] for tiling in rank_tilings(PROBLEM, 2, 1 << 20))
    kinds = next(kinds for kinds in orders if "load" in kinds[kinds.index("compute") :])
    first = kinds.index("compute")
    assert kinds[:first].count("load") > len({"x", "w", "bias", "one"})
    assert kinds[-1 - kinds[::-1].index("load") :].count("compute") > 0


def test_a_step_that_names_a_place_without_elements_is_told() -> None:
    kernel = PROBLEM.kernel
    gone = Const(0, span=kernel.steps[0].span)
    empty = replace(kernel, places=tuple(replace(place, size=gone) if place.name == "x" else place for place in kernel.places))
    problem = state_problem(MACHINE, empty, OPERATION)
    with pytest.raises(UserError, match="E1002 step 'compute y' of 'conv' names place 'x', which has a size of 0 here; say with `when`"):
        order_steps(problem, rank_tilings(problem, 2, 1)[0])


def turns_of(machine: Machine, kernels: Sequence[str], contexts: int, add: bool = True) -> list[tuple[str, int]]:
    """A convolution, and what its kernel's tiles pass to: the steps of each member that work or store, with the turn of the loop."""
    known, shape = load_kernels(machine), (1, 64, 40, 40)
    reader = (made.add("add", shape), {"x": "t0", "z": "u"}) if add else (convolution(shape, (64, 1, 1), 2), {"x": "t0"})
    steps = [(convolution(shape, (64, 1, 1), low=0), {"x": "t"}), reader]
    region = chain(shape, *steps)
    problems = [state_problem(machine, known[name], bound.operation) for name, bound in zip(kernels, region.operations, strict=True)]
    group = make_tile_group(region, range(2), problems)
    assert isinstance(group, TileGroup)
    found = search_tiles(group, contexts)
    assert found
    last = found.tilings[-1]
    turns = group.tiles(last.sizes, last.order)
    placed = order_tiles(list(zip(group.problems, found.tilings, strict=True)), turns, group.roots, {})
    numbers = [{tuple(tile.items()): number for number, tile in reversed(list(enumerate(each)))} for each in zip(*turns, strict=True)]
    outer = [set(turns[0][member]) for member in range(2)]
    return [
        (f"{item.step.kind} {kernels[member]}", numbers[member][tuple((d, at) for d, at in item.tile.items() if d in outer[member])])
        for member, item in placed
        if item.step.kind in ("finish", "store") or (item.step.kind == "compute" and member)
    ]


def test_a_member_on_units_of_its_own_works_a_turn_later() -> None:
    """Queues are in order: a store that waits for it would hold up the loads of the next tile."""
    steps = turns_of(load_machine("stcp920"), ("conv2d", "add_onto_x"), 2)
    turns = 1 + max(turn for _, turn in steps)
    assert turns > 2
    wanted = [("finish conv2d", 0)]
    for turn in range(1, turns + 1):
        wanted += [("finish conv2d", turn)] * (turn < turns) + [("compute add_onto_x", turn - 1), ("store add_onto_x", turn - 1)]
    assert steps == wanted


def test_a_member_works_at_once_on_the_only_slot_and_on_the_units_of_others() -> None:
    for machine, kernel, contexts in (("stcp920", "conv2d", 1), ("vta", "conv2d", 2)):
        steps = [
            (kind, turn) for kind, turn in turns_of(load_machine(machine), (kernel, "add_onto_x"), contexts) if "store" in kind or "finish" in kind
        ]
        assert [turn for _, turn in steps] == sorted(turn for _, turn in steps)


def test_members_of_a_chain_of_convolutions_are_a_turn_later_each() -> None:
    """Each needs the matrix unit and the vector unit, and its tile stands beside the one that it reads."""
    steps = [(kind, turn) for kind, turn in turns_of(load_machine("stcp920"), ("conv2d", "conv2d_passed"), 2, add=False) if kind.startswith("finish")]
    turns = 1 + max(turn for _, turn in steps)
    assert turns > 2
    wanted: list[tuple[str, int]] = []
    for turn in range(turns + 1):
        wanted += [("finish conv2d", turn)] * (turn < turns) + [("finish conv2d_passed", turn - 1)] * (turn > 0)
    assert steps == wanted


def test_a_member_reads_the_only_slot_in_the_same_turn() -> None:
    steps = [turn for kind, turn in turns_of(load_machine("stcp920"), ("conv2d", "conv2d_passed"), 1, add=False) if kind.startswith("finish")]
    assert steps == sorted(steps)


@given(st.integers(1, 5), st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2), st.booleans()), max_size=40))
def test_a_tile_takes_the_slot_that_was_used_longest_ago_or_came_first(count: int, uses: list[tuple[int, int, bool]]) -> None:
    """By the rule as it is said, which looks at all slots each time."""
    slots, now = _Slots(tuple(Slot(0, number) for number in range(count))), 0
    held, used = dict[tuple[int, ...], int](), dict[int, int]()
    for tile, later, in_turn in uses:
        key, now, freed = (tile,) if tile else (), now + later, None
        if key not in held:
            oldest = {slot: number for number, slot in enumerate(held.values())} if in_turn else used
            slot = min(range(count), key=lambda each: (oldest.get(each, -1), each))
            freed = used.get(slot, -1)
            held = {**{other: own for other, own in held.items() if own != slot}, key: slot}
        used[held[key]] = now
        assert slots.use(key, now, in_turn) == (Slot(0, held[key]), freed)


def test_many_slots_cost_no_more_work_each() -> None:
    """Of a batch each picture may have a slot; looking at all of them for each made the time grow with its square."""

    def calls(count: int) -> float:
        slots, seen = _Slots(tuple(Slot(0, number) for number in range(count))), list[str]()
        sys.setprofile(lambda _frame, event, _value: seen.append(event) if event == "call" else None)
        try:
            for now in range(3 * count):
                slots.use((now,), now)
        finally:
            sys.setprofile(None)
        return len(seen) / (3 * count)

    assert calls(512) < 2 * calls(8)
