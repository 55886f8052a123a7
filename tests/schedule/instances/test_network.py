"""An instance computes what its part of the outputs needs, and holds at least that at once."""

import itertools
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedule.instances.made_networks import convolution, networks, stages, total
from toolchain.schedule.instances.network import Box, Network, elements, footprint, hull, instance_of, meets, span_of, whole


def box(*ends: tuple[int, int]) -> Box:
    n, c, h, w = (range(first, stop) for first, stop in ends)
    return n, c, h, w


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5)), min_size=1, max_size=12), st.data())
def test_a_part_reaches_from_the_first_to_the_last_position_that_is_read(pairs: list[tuple[int, int]], data: st.DataObject) -> None:
    span = span_of([first for first, _ in pairs], [first + count for first, count in pairs])
    first = data.draw(st.integers(0, len(pairs) - 1))
    stop = data.draw(st.integers(first + 1, len(pairs)))
    read = {place for start, count in pairs[first:stop] for place in range(start, start + count)}
    assert span.part(range(first, stop)) == (min(read), max(read) + 1)


def test_rows_that_a_window_needs_are_computed_for_it() -> None:
    works = convolution("a", "in", (1, 2, 8, 8), 2), convolution("b", "a", (1, 2, 8, 8), 2)
    found = instance_of(Network(works, frozenset({"b"})), (0, 1), {1: box((0, 1), (0, 2), (2, 4), (0, 8))})
    assert found.made[0][2] == range(1, 5)
    assert found.taken["in"][2] == range(6)


def test_a_part_of_a_concatenation_needs_its_own_channels_alone() -> None:
    one, other = (convolution(name, "in", (1, 2, 4, 4), 3) for name in "ab")
    joined = replace(one, tensor="both"), replace(other, tensor="both", channel=3)
    reader = total("sum", ("both",), (1, 6, 4, 4))
    found = instance_of(Network((*joined, reader), frozenset({"sum"})), (0, 1, 2), {2: box((0, 1), (2, 4), (0, 4), (0, 4))})
    assert found.made[0][1] == range(2, 3)
    assert found.made[1][1] == range(1)


@settings(max_examples=60, deadline=None)
@given(networks(), st.data())
def test_every_element_that_is_needed_is_there(network: Network, data: st.DataObject) -> None:
    """Element by element, back from any part of the last result."""
    last = len(network.works) - 1
    ends = [sorted(data.draw(st.tuples(st.integers(0, extent - 1), st.integers(0, extent - 1)))) for extent in network.works[last].extents]
    wanted = box(*((first, stop + 1) for first, stop in ends))
    found = instance_of(network, tuple(range(last + 1)), {last: wanted})
    maker = {work.tensor: index for index, work in enumerate(network.works)}
    left = [(last, element) for element in itertools.product(*wanted)]
    seen: set[tuple[int, tuple[int, ...]]] = set()
    while left and len(seen) < 400:
        index, element = left.pop()
        if (index, element) in seen:
            continue
        seen.add((index, element))
        assert all(at in part for at, part in zip(element, found.made[index], strict=True))
        one = box(*((at, at + 1) for at in element))
        for operand in network.works[index].operands:
            part = operand.part(one)
            if operand.tensor in maker:
                left += [(maker[operand.tensor], read) for read in itertools.product(*part)]
            else:
                assert hull(found.taken[operand.tensor], part) == found.taken[operand.tensor]


@given(networks())
def test_more_is_held_at_once_than_any_operation_touches(network: Network) -> None:
    members = tuple(range(len(network.works)))
    outputs = network.results(members)
    instance = instance_of(network, members, {index: network.works[index].whole for index in outputs})
    held = footprint(network, members, instance)
    for index, made in instance.made.items():
        taken = {o.tensor: instance.taken[o.tensor] for o in network.works[index].operands if o.tensor in instance.taken}
        assert held >= elements(made) + sum(map(elements, taken.values()))


def test_a_stage_holds_its_operand_and_its_result() -> None:
    network = stages(1)
    assert footprint(network, (0,), instance_of(network, (0,), {0: network.works[0].whole})) == 1024 + 512
    both = instance_of(network, (0, 1), {1: network.works[1].whole})
    assert footprint(network, (0, 1), both) == 1024 + 512, "the picture is not held beside the second result"


def test_boxes_meet_where_they_have_an_element_in_common() -> None:
    one = whole((1, 2, 3, 4))
    assert meets(one, box((0, 1), (1, 5), (2, 9), (3, 4)))
    assert not meets(one, box((0, 1), (2, 5), (0, 3), (0, 4)))
    assert elements(hull(one, box((0, 1), (2, 5), (0, 3), (0, 4)))) == 1 * 5 * 3 * 4
