"""Loads for several streams at once: exact, free of races, with weights through DRAM once for each cluster.

Any streams may run any tiles: what is not refused with its line is exact, free of races, and stays so in every order.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedule.form.edits import REGIONS, Edit, edited, read, text_of
from tests.schedule.groups.tall_regions import scheduled, short_machine
from tests.schedule.groups.test_search import CHAINS
from tests.schedule.many_cores import chip
from tests.schedule.test_compile_region import KERNELS, MACHINES, proven, three_convolutions, two_convolutions
from tests.schedule.test_options import exact, random_region
from tests.schedule.test_options import two_convolutions as random_convolutions
from toolchain.schedule.compile_region import compile_region, find_schedule
from toolchain.schedule.copies import Copies
from toolchain.schedule.form.files import write_schedule
from toolchain.schedule.form.plan import Schedule
from toolchain.schedule.form.realise import realise
from toolchain.schedule.form.shares import can_multicast, even_shares, teams
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options
from toolchain.schedule.program import CompiledRegion
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
    plain, shared = both(clusters(), random_convolutions(), Options(copies=8, effort=0))
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
    machine, region = clusters(), random_convolutions()
    schedule = find_schedule(machine, load_kernels(machine), region, Options(copies=8, effort=0))
    text = write_schedule(schedule)
    assert "multicast: true, copies: {times: 8, streams: 1}" in text
    assert read(text) == schedule
    assert "multicast" not in write_schedule(replace(schedule, multicast=False))


def test_a_machine_without_such_loads_refuses_it() -> None:
    machine, region = load_machine("dnnvm", "b512_min", {"CORES": "2", "LOG_DDR": "24"}), random_convolutions()
    assert can_multicast(clusters(), load_kernels(clusters()))
    assert not can_multicast(machine, load_kernels(machine))
    text = write_schedule(replace(find_schedule(machine, load_kernels(machine), region), multicast=True))
    with pytest.raises(UserError, match="E1414 machine 'dnnvm' has no neighbouring streams, or no kernel with a load for several at once"):
        compile_region(machine, load_kernels(machine), region, None, read(text))


def test_a_room_for_weights_needs_a_memory_in_which_they_wait() -> None:
    zu9, region = load_machine("dnnvm", "zu9"), random_convolutions()
    text = write_schedule(find_schedule(zu9, load_kernels(zu9), region, Options(copies=3, effort=0)))
    assert "{times: 3, streams: 1}" in text
    with pytest.raises(UserError, match=r"mine.yaml:2:\d+: E1414 machine 'dnnvm' has no kernel whose weights wait .*; leave 'weights' out"):
        compile_region(zu9, load_kernels(zu9), region, None, read(text.replace("streams: 1}", "streams: 1, weights: 4096}")))
    machine = clusters()
    text = write_schedule(find_schedule(machine, load_kernels(machine), region, Options(copies=8, effort=0)))
    with pytest.raises(UserError, match=r"E1414 the room for weights is 999999999 elements, and the memory in which they wait has \d+"):
        compile_region(machine, load_kernels(machine), region, None, read(text.replace("streams: 1}", "streams: 1, weights: 999999999}")))


@given(st.integers(1, 10_000), st.integers(1, 64))
def test_even_shares_are_all_tiles_and_nearly_alike(tiles: int, streams: int) -> None:
    found = even_shares(tiles, streams)
    counts = [share.tiles for share in found]
    assert sum(counts) == tiles
    assert len(counts) == min(tiles, streams)
    assert max(counts) - min(counts) <= 1
    assert all(one.stream < other.stream < streams for one, other in pairwise(found))


@cache
def four() -> tuple[Machine, Region, str]:
    """Four cores, a chain of convolutions, and the search's schedule for two of them."""
    machine, region = chip(1, 4), three_convolutions(6)
    return machine, region, write_schedule(find_schedule(machine, load_kernels(machine), region, Options(streams=2, timed_streams=False)))


def test_what_is_printed_is_read_back() -> None:
    assert write_schedule(read(four()[2])) == four()[2]
    assert "\n  - streams: [[0, " in four()[2]


@given(st.data())
@settings(max_examples=4, deadline=None)
def test_any_streams_may_run_any_tiles(data: st.DataObject) -> None:
    machine, region, text = four()
    schedule = read(text)

    def deal(held: dict[str, list[dict[str, object]]]) -> None:
        for entry, group in zip(held["groups"], schedule.groups, strict=True):
            left, shares = sum(share.tiles for share in group.streams), list[list[int]]()
            while left:
                count = data.draw(st.integers(1, left))
                shares.append([data.draw(st.integers(0, 3)), count])
                left -= count
            entry["streams"] = shares

    compiled = compile_region(machine, load_kernels(machine), region, None, read(edited(text, deal)))
    assert all(proven(compiled, machine, seed) for seed in (None, 1))
    for stream in range(4):
        own = compiled.order[compiled.program.stream[compiled.order] == stream]
        assert np.array_equal(own, np.sort(own))


def test_a_group_without_streams_runs_on_the_first_and_keeps_its_tensors_there() -> None:
    machine, kernels, region = chip(1, 2), load_kernels(chip(1, 2)), two_convolutions()
    text = write_schedule(find_schedule(machine, kernels, region))
    compiled = compile_region(machine, kernels, region, None, read(edited(text, lambda held: held["groups"][1].update(streams=[[0, 1]]))))
    assert "t" not in compiled.map.tensors
    assert np.unique(compiled.program.stream[compiled.owner >= 0]).tolist() == [0]
    assert proven(compiled, machine)


FAULTS: dict[str, Edit] = {
    "no such stream": lambda held: held["groups"][1].update(streams=[[0, 1], [4, 1]]),
    "too few tiles": lambda held: held["groups"][1].update(streams=[[0, 1], [3, 1], [0, 1]]),
    "no pair": lambda held: held["groups"][1].update(streams=[0, 1]),
    "no tiles": lambda held: held["groups"][1].update(streams=[[0, 0]]),
    "nobody": lambda held: held["groups"][1].update(streams=[]),
}


def refused(machine: Machine, region: Region, schedule: Callable[[], Schedule]) -> str:
    with pytest.raises(UserError) as caught:
        realise(machine, load_kernels(machine), region, schedule())
    return str(caught.value)


def test_every_fault_in_its_line(golden: Callable[[str, str], None]) -> None:
    machine, region, text = four()
    told = {name: refused(machine, region, lambda edit=edit: read(edited(text, edit))) for name, edit in FAULTS.items()}
    alone = edited(text_of("vta"), lambda held: held["groups"][0].update(streams=[[1, 1]]))
    told["a machine with one stream"] = refused(MACHINES["vta"], REGIONS["vta"](), lambda: read(alone))
    records = edited(text_of("vta"), lambda held: held["groups"][0].update(streams=[[0, 1]]))
    told["records in a control memory"] = refused(MACHINES["vta"], REGIONS["vta"](), lambda: read(records))
    (short, _), chain = short_machine(), CHAINS["conv -> conv"]
    grouped = edited(write_schedule(scheduled(chain)), lambda held: held["groups"][0].update(streams=[[0, 1]]))
    told["several operations"] = refused(short, chain, lambda: read(grouped))
    two = write_schedule(find_schedule(machine, load_kernels(machine), two_convolutions()))
    scattered = edited(two, lambda held: held["groups"][1].update(streams=[[1, 1]]))
    told["a tensor in two memories"] = refused(machine, two_convolutions(), lambda: read(scattered))
    golden("schedule/share_faults.txt", "".join(f"## {name}\n{text}\n" for name, text in told.items()))


def test_more_streams_than_the_machine_has() -> None:
    with pytest.raises(UserError, match="E1007 2 streams cannot share the work: the machine runs 1"):
        find_schedule(MACHINES["vta"], KERNELS["vta"], two_convolutions(), Options(streams=2))
