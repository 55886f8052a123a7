"""Loads for several streams at once: exact, free of races, with weights through DRAM once for each cluster."""

from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedule.form.edits import read
from tests.schedule.many_cores import chip
from tests.schedule.test_compile_region import three_convolutions
from tests.schedule.test_options import exact, random_region, two_convolutions
from toolchain.schedule.compile_region import compile_region, find_schedule
from toolchain.schedule.compiled_region import CompiledRegion
from toolchain.schedule.form.files import write_schedule
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.multicast import can_multicast, teams
from toolchain.schedule.options import Copies, Options
from toolchain.schedule.regions.region import Region
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine
from toolchain.timing.usage import summarise


@cache
def clusters(count: int = 2) -> Machine:
    """Clusters of four cores."""
    return chip(count, 4)


def both(machine: Machine, region: Region, options: Options) -> tuple[CompiledRegion, CompiledRegion]:
    """The same schedule without and with loads for several streams at once."""
    schedule = find_schedule(machine, load_kernels(machine), region, options)
    one, two = (compile_region(machine, load_kernels(machine), region, None, replace(schedule, multicast=way)) for way in (False, True))
    return one, two


def read_bytes(compiled: CompiledRegion) -> int:
    return sum(use.read_bytes for use in summarise(compiled.timeline).memories if use.name == "ddr")


@pytest.mark.parametrize(
    ("copies", "streams", "found"),
    [
        (8, 1, [range(4), range(4, 8)]),
        (6, 1, [range(4), range(4, 6)]),
        (3, 2, [range(2), range(2, 3)]),
        (2, 4, [range(1), range(1, 2)]),
        (2, 3, [range(1), range(1, 2)]),
        (1, 8, [range(1)]),
    ],
)
def test_a_team_is_the_copies_of_one_cluster(copies: int, streams: int, found: list[range]) -> None:
    assert teams(clusters(), Copies(copies, streams)) == found


@given(seed=st.integers(0, 1 << 30), steps=st.integers(1, 3), ways=st.sampled_from([(2, 1), (3, 1), (8, 1), (3, 2), (1, 4), (1, 7)]))
@settings(max_examples=12, deadline=None)
def test_any_region_is_exact_on_the_images_of_each_copy(seed: int, steps: int, ways: tuple[int, int]) -> None:
    machine, (copies, streams) = clusters(), ways
    region = random_region(machine, seed, steps)
    if region is not None:
        try:
            compiled = both(machine, region, Options(streams=streams, copies=copies, timed_streams=False, effort=0))[1]
        except UserError as error:
            assert error.diagnostics[0].code in ("E1003", "E1004", "E1008"), error  # noqa: PT017 what a kernel refuses is its own matter
        else:
            assert exact(compiled, machine, None)
            assert exact(compiled, machine, 1)
            assert exact(compiled, machine, None, schedules=True)


def test_copies_of_a_cluster_read_weights_once() -> None:
    plain, shared = both(clusters(), two_convolutions(), Options(copies=8, effort=0))
    weights = sum(map(len, shared.constants.values()))
    assert read_bytes(plain) - read_bytes(shared) == (8 - 2) * weights
    assert shared.cycles < plain.cycles


def test_streams_of_one_image_take_the_same_weights_at_once() -> None:
    """Rows of one picture are dealt to four cores, which all need every weight."""
    plain, shared = both(clusters(1), three_convolutions(24), Options(streams=4, timed_streams=False))
    assert read_bytes(shared) < read_bytes(plain)
    assert shared.cycles < plain.cycles
    assert all(exact(shared, clusters(1), seed) for seed in (None, 1))


def test_in_the_order_of_the_schedule_no_copy_is_a_group_ahead_of_those_that_load_for_it() -> None:
    _, shared = both(clusters(1), three_convolutions(24), Options(copies=4, effort=0))
    assert exact(shared, clusters(1), None, schedules=True)
    owners = shared.owner[shared.order]
    groups = np.array(shared.schedule.numbers)[owners[owners >= 0]]
    assert np.array_equal(groups, np.sort(groups))


def test_those_who_loaded_least_for_others_load_next() -> None:
    _, shared = both(clusters(1), three_convolutions(24), Options(copies=4, effort=0))
    kinds = {each.name: number for number, each in enumerate(shared.program.machine.instructions)}
    loads = np.flatnonzero(shared.program.kind == kinds["LOAD"])
    loaders = Counter(int(shared.program.stream[i]) for i in loads if shared.program.field(int(i), "cores"))
    assert set(loaders) == {0, 1, 2, 3}
    assert {shared.program.field(int(i), "cores") for i in loads} == {0, 0b1111}


def test_the_search_takes_it_where_it_is_quicker_and_the_schedule_says_so() -> None:
    machine, region = clusters(), two_convolutions()
    schedule = find_schedule(machine, load_kernels(machine), region, Options(copies=8, effort=0))
    text = write_schedule(schedule)
    assert "multicast: true, copies: {times: 8, streams: 1}" in text
    assert read(text) == schedule
    assert "multicast" not in write_schedule(replace(schedule, multicast=False))


def test_a_machine_without_such_loads_refuses_it() -> None:
    machine, region = load_machine("dnnvm", "b512_min", {"CORES": "2", "LOG_DDR": "24"}), two_convolutions()
    assert can_multicast(clusters(), load_kernels(clusters()))
    assert not can_multicast(machine, load_kernels(machine))
    text = write_schedule(replace(find_schedule(machine, load_kernels(machine), region), multicast=True))
    with pytest.raises(UserError, match="E1414 machine 'dnnvm' has no neighbouring streams, or no kernel with a load for several at once"):
        compile_region(machine, load_kernels(machine), region, None, read(text))
