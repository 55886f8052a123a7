"""Any streams may run any tiles: what is not refused with its line is exact, free of races, and stays so in every order."""

from collections.abc import Callable
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
from toolchain.schedule.compile_region import compile_region, find_schedule
from toolchain.schedule.form.files import write_schedule
from toolchain.schedule.form.realise import realise
from toolchain.schedule.form.schedule import Schedule
from toolchain.schedule.form.shares import even_shares
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options
from toolchain.schedule.regions.region import Region
from toolchain.spec.errors import UserError
from toolchain.spec.model import Machine


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
