"""Rivals: buffers that neighbours on different units need at once, also where a timed program makes them wait for each other. Rivals go to
different pools: never dearer, never on top of each other, and a real network is quicker by it."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.operations import made
from tests.schedule.convolutions import convolution
from tests.schedule.groups.test_depth_first import KERNELS, MACHINE, block
from tests.schedule.placement.test_on_chip_allocation import CANDIDATES, candidate
from tests.schedule.test_compile_region import proven
from tests.schedule.test_side_by_side import NARROW, WIDE
from toolchain.abi.dram_map import Shape
from toolchain.schedule.bank_choice import BESIDE, WHOLE, Costs, apart, clashes, joined, neighbour_rivals
from toolchain.schedule.compile_region import compile_region, plan_region
from toolchain.schedule.form.plan import make_schedule
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.kernels.pools import Pool, Slot
from toolchain.schedule.options import Options
from toolchain.schedule.placement.on_chip_allocation import Residents, place_residents
from toolchain.schedule.program import turned
from toolchain.schedule.regions.region import Bound, Region

PORTED = made.load_machine("dpuv3")
PORTED_KERNELS = load_kernels(PORTED)
POOLS = {"fm": (Pool(0, 8), Pool(4, 8), Pool(8, 4))}


def test_a_buffer_that_both_read_is_none_and_two_that_they_read_are() -> None:
    plan = plan_region(MACHINE, KERNELS, block(), Options(grouped=False))
    names = [problem.operation.name for problem in plan.problems]
    third, add, after = (names.index(name) for name in ("third", "add", "next"))
    found = neighbour_rivals(plan)
    assert set(found[WHOLE, "c"]) == {(WHOLE, "d"), (WHOLE, "a")}  # read by the third convolution, and the addition's operands
    assert found[WHOLE, "c"][WHOLE, "a"] == BESIDE * min(plan.tilings[third].estimate, plan.tilings[add].estimate)
    assert (WHOLE, "s") not in found.get((WHOLE, "s"), {})
    assert all(found[other][one] == cycles for one, rivals in found.items() for other, cycles in rivals.items())
    assert min(plan.tilings[add].estimate, plan.tilings[after].estimate) > 0


def test_operations_of_one_unit_are_no_rivals() -> None:
    plan = plan_region(MACHINE, KERNELS, block(), Options(grouped=False))
    assert (WHOLE, "b") not in neighbour_rivals(plan)[WHOLE, "c"]


def test_joined_rivals_have_the_larger_number() -> None:
    one, two, three = ((WHOLE, name) for name in "abc")
    first, second = {one: {two: 5.0}, two: {one: 5.0}}, {one: {two: 3.0, three: 2.0}, two: {one: 9.0}, three: {one: 2.0}}
    assert joined(first, second) == {one: {two: 5.0, three: 2.0}, two: {one: 9.0}, three: {one: 2.0}}
    assert first == {one: {two: 5.0}, two: {one: 5.0}}


def spent(found: Residents, costs: Costs) -> float:
    slots = found.slots
    return sum(cycles for one, others in costs.items() for other, cycles in others.items() if slots[one].bank == slots[other].bank) / 2


@given(CANDIDATES, st.data())
def test_what_moves_costs_less_and_collides_with_nothing(given_sizes: list[tuple[int, int, int]], data: st.DataObject) -> None:
    candidates = {f"n{k}": candidate(f"n{k}", size, first, first + length) for k, (size, first, length) in enumerate(given_sizes)}
    candidates |= {
        name: replace(c, over=tuple(other.name for other in candidates.values() if other.size == c.size and other.last == c.first and other is not c))
        for name, c in candidates.items()
    }
    before = place_residents(candidates, POOLS, 13)
    names = sorted(before.slots)
    costs: dict[str, dict[str, float]] = {name: {} for name in names}
    for one, other in [(a, b) for a in names for b in names if a < b]:
        costs[one][other] = costs[other][one] = float(data.draw(st.integers(0, 5)))
    after = apart(before, costs)
    assert set(after.slots) == set(before.slots)
    assert not list(after.collisions())
    assert all(slot.address + candidates[name].size <= {0: 8, 4: 8, 8: 4}[slot.bank] for name, slot in after.slots.items())
    assert spent(after, costs) <= spent(before, costs)


def test_one_that_is_in_the_way_makes_room() -> None:
    """`a` and `b` are rivals, and `c`, which has none, fills the only other pool."""
    candidates = {"a": candidate("a", 4, 0, 2), "b": candidate("b", 4, 0, 2), "c": candidate("c", 4, 0, 2)}
    before = Residents({"a": Slot(0, 0), "b": Slot(0, 4), "c": Slot(4, 0)}, candidates, range(3), {"fm": (Pool(0, 8), Pool(4, 4))})
    assert apart(before, {"a": {"b": 1.0}, "b": {"a": 1.0}}).slots == {"a": Slot(4, 0), "b": Slot(0, 4), "c": Slot(0, 0)}


def test_two_make_room_where_neither_alone_leaves_enough() -> None:
    """`a` and `b` are rivals. For either in the second pool, `c` and `d` must both leave it, one for the first pool, one for the third."""
    sizes = {"a": 5, "b": 5, "c": 4, "d": 4}
    candidates = {name: candidate(name, size, 0, 2) for name, size in sizes.items()}
    slots = {"a": Slot(0, 0), "b": Slot(0, 5), "c": Slot(4, 0), "d": Slot(4, 4)}
    before = Residents(slots, candidates, range(3), {"fm": (Pool(0, 10), Pool(4, 8), Pool(8, 4))})
    costs = {"a": {"b": 5.0}, "b": {"a": 5.0}}
    after = apart(before, costs)
    assert (spent(before, costs), spent(after, costs)) == (5, 0)
    assert not list(after.collisions())
    assert all(slot.address + sizes[name] <= {0: 10, 4: 8, 8: 4}[slot.bank] for name, slot in after.slots.items())


def test_what_clashes_is_counted_by_hand() -> None:
    """`a` and `b` stand in one pool, `c` in another one; a buffer that went to DRAM clashes with none."""
    candidates = {name: candidate(name, 4, 0, 2) for name in "abc"}
    residents = Residents({"a": Slot(0, 0), "b": Slot(0, 4), "c": Slot(4, 0)}, candidates, range(3), POOLS)
    pairs = {("a", "b"): 5.0, ("a", "c"): 7.0, ("b", "gone"): 11.0}
    rivals: dict[tuple[int, str], dict[tuple[int, str], float]] = {}
    for (one, other), cycles in pairs.items():
        rivals.setdefault((WHOLE, one), {})[WHOLE, other] = rivals.setdefault((WHOLE, other), {})[WHOLE, one] = cycles
    assert clashes([], residents, rivals) == 5


def bottleneck() -> Region:
    """An addition runs beside the convolution before it, whose operand, result and shortcut are as many buffers as there are groups of banks."""
    bound = (
        Bound(replace(convolution(NARROW, (512, 1, 1), 0, 500), name="first"), {"x": "x", "y": "a"}),
        Bound(replace(convolution(WIDE, (128, 1, 1), 1, 500), name="second"), {"x": "a", "y": "b"}),
        Bound(replace(convolution(NARROW, (512, 1, 1), 1, 500), name="third"), {"x": "b", "y": "c"}),
        Bound(made.add("add", WIDE, 1, 1, made.Requantise(1)), {"x": "c", "z": "a", "y": "s"}),
        Bound(replace(convolution(WIDE, (128, 1, 1), 2, 500), name="last"), {"x": "s", "y": "y"}),
    )
    shapes = {"x": NARROW, "a": WIDE, "b": NARROW, "c": WIDE, "s": WIDE, "y": NARROW}
    return Region("bottleneck", {name: Shape(*size) for name, size in shapes.items()}, ("x",), ("y",), bound, {})


def test_a_block_is_quicker_with_its_buffers_apart() -> None:
    region = bottleneck()
    plan = plan_region(PORTED, PORTED_KERNELS, region)
    plain = compile_region(PORTED, PORTED_KERNELS, region, schedule=make_schedule(PORTED, turned(plan)))
    parted = compile_region(PORTED, PORTED_KERNELS, region)
    assert parted.cycles < 0.95 * plain.cycles
    assert proven(parted, PORTED)
    free = made.load_machine("dpuv3", overrides={"BANK_PORTS": "0"})
    assert compile_region(free, PORTED_KERNELS, region).schedule.buffers == make_schedule(free, turned(plan)).buffers
