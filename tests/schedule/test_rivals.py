"""Rivals: buffers that neighbours on different units need at once, also where a timed program makes them wait for each other."""

from tests.schedule.groups.test_depth_first import KERNELS, MACHINE, block
from toolchain.schedule.compile_region import plan_region
from toolchain.schedule.options import Options
from toolchain.schedule.rivals import BESIDE, WHOLE, joined, neighbour_rivals


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
