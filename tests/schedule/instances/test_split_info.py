"""The splits of the paper's figure 3, and laws: instances fit, cover the outputs, and the split is the best of all that do."""

import math
from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.schedule.instances.made_networks import STAGE, convolution, networks, stages
from toolchain.schedule.instances.network import AXES, Network, elements, footprint
from toolchain.schedule.instances.split_info import Levels, Split, best_split, factors, instances, recomputed, split_info, worthwhile


def test_stages_are_split_into_eight_four_two_instances_and_one() -> None:
    """Figure 3: an image saturates the memory of the cores in stage 1; each later stage takes half the room, so twice the images fit."""
    network = stages()
    found = [best_split(network, (index,), Levels(STAGE)) for index in range(4)]
    assert found == [Split(0, factor, 1) for factor in (8, 4, 2, 1)]


def test_factors_are_the_cores_work_first() -> None:
    assert factors(11) == [1, 2, 4, 8, 9, 10, 11]
    assert factors(3) == [1, 2]
    assert factors(1) == [1]
    assert factors(1000)[-1] <= 1000
    assert all(a < b <= 1.25 * a for a, b in zip(factors(1000)[3:], factors(1000)[4:], strict=False))


def test_the_outer_dimension_is_taken_of_equals_and_more_operations_before_fewer_instances() -> None:
    assert max([Split(0, 4, 2), Split(2, 4, 2)], key=lambda split: split.rank).dimension == 0
    assert max([Split(0, 2, 1), Split(2, 9, 3)], key=lambda split: split.rank).operations == 3
    assert max([Split(0, 8, 2), Split(2, 4, 2)], key=lambda split: split.rank).factor == 4


def test_channels_of_a_convolution_split_no_operation_before_it() -> None:
    works = convolution("a", "in", (1, 8, 8, 8), 8), convolution("b", "a", (1, 8, 8, 8), 8)
    network = Network(works, frozenset({"b"}))
    found = {split.dimension: split for split in split_info(network, (0, 1), Levels(1 << 20))}
    assert found[1].operations == 1
    assert found[2].operations == found[3].operations == 2


def test_a_block_of_channels_is_never_split() -> None:
    work = replace(convolution("a", "in", (1, 1, 64, 1), 64, reach=1), unit=(1, 32, 1, 1))
    found = instances(Network((work,), frozenset({"a"})), (0,), 1, 8)
    assert [len(each.made[0][1]) for each in found] == [32, 32]


def test_nothing_fits_a_memory_that_is_too_small() -> None:
    assert best_split(stages(), (0,), Levels(1)) is None


def test_images_compute_nothing_again_and_windows_do() -> None:
    works = convolution("a", "in", (4, 1, 8, 1), 1, cycles=32.0), convolution("b", "a", (4, 1, 8, 1), 1, cycles=32.0)
    network = Network(works, frozenset({"b"}))
    assert recomputed(network, (0, 1), Split(0, 4, 2)) == 0
    assert recomputed(network, (0, 1), Split(2, 8, 2)) == 32.0 * (6 * 3 + 2 * 2 - 8) / 8
    spared = 2 * 4 * 8
    assert worthwhile(network, (0, 1), Split(2, 8, 2), Levels(1, moves=spared / 56))
    assert not worthwhile(network, (0, 1), Split(2, 8, 2), Levels(1, moves=spared / 55))


def strided() -> Network:
    """Two convolutions of every other row and column: instances read less than their part of the whole."""
    works = convolution("a", "in", (1, 2, 13, 5), 1, stride=2, reach=1), convolution("b", "a", (1, 1, 7, 3), 1, stride=2, reach=1)
    return Network(works, frozenset({"b"}))


@settings(max_examples=80, deadline=None)
@given(networks(), st.integers(1, 400))
@example(strided(), 59)
def test_instances_of_every_split_fit_and_no_smaller_factor_does(network: Network, local: int) -> None:
    members = tuple(range(len(network.works)))
    for split in split_info(network, members, Levels(local)):
        found = instances(network, members, split.dimension, split.factor)
        assert all(footprint(network, members, found[place]) <= local for place in {0, len(found) // 2, len(found) - 1})
        extent = min(network.works[index].extents[split.dimension] for index in network.results(members))
        for factor in (each for each in factors(extent) if each < split.factor):
            assert any(footprint(network, members, each) > local for each in instances(network, members, split.dimension, factor))


@settings(max_examples=60, deadline=None)
@given(networks(), st.sampled_from(list(AXES)), st.integers(1, 8))
def test_instances_leave_every_element_of_the_outputs_once(network: Network, dimension: int, factor: int) -> None:
    members = tuple(range(len(network.works)))
    outputs = network.results(members)
    alone = [index for index in outputs if not network.readers.get(network.works[index].tensor)]
    found = instances(network, members, dimension, factor)
    for index in alone:
        assert sum(elements(each.made[index]) for each in found if index in each.made) == math.prod(network.works[index].extents)
    assert recomputed(network, members, Split(dimension, 1, 1)) == 0
