"""Operations are dealt to as many streams as are quickest by exact time: more streams are never slower."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.schedule.convolutions import convolution
from tests.schedule.form.edits import read
from tests.schedule.many_cores import chip
from tests.schedule.synchronisation.test_across import amounts
from tests.schedule.test_compile_region import proven, three_convolutions
from toolchain.abi.dram_map import Shape
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.dealing import MIXED, Counts, Trial, quickest_dealing, spent
from toolchain.schedule.form.files import write_schedule
from toolchain.schedule.form.plan import Schedule
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options
from toolchain.schedule.program import CompiledRegion
from toolchain.schedule.regions.region import Bound, Region

COSTS = st.integers(1, 4).flatmap(lambda count: st.lists(st.lists(st.integers(1, 99), min_size=9, max_size=9), min_size=count, max_size=count))


def told(costs: list[list[int]], streams: int) -> tuple[float, list[Counts]]:
    """The best time and all counts that were tried, where costs of operations add up and nothing else matters."""
    tried: list[Counts] = []

    def time(counts: Counts) -> Trial:
        tried.append(counts)
        took = np.array([own[count] for own, count in zip(costs, counts, strict=True)], np.float64)
        return Trial(Schedule("", "", "", "", (), ()), float(took.sum()), took)

    return quickest_dealing(len(costs), streams, time).cycles, tried


@given(COSTS, st.integers(1, 8))
def test_the_quickest_mixture_is_found_where_costs_add_up(costs: list[list[int]], streams: int) -> None:
    cycles, tried = told(costs, streams)
    powers = sorted({count for count in (1, 2, 4) if count < streams} | {streams})
    least = sum(min(own[count] for count in powers) for own in costs)
    assert least <= cycles <= least / 0.99
    assert tried[0] == (1,) * len(costs)
    assert {(count,) * len(costs) for count in powers} <= set(tried)
    assert len(tried) == len(set(tried)) <= len(powers) * (1 + MIXED)


@given(COSTS)
def test_more_streams_are_never_slower(costs: list[list[int]]) -> None:
    times = [told(costs, streams)[0] for streams in (1, 2, 4, 8)]
    assert times == sorted(times, reverse=True)


def uneven() -> Region:
    """A convolution that is worth sharing, and two of a few pixels that are not."""
    wide = convolution((1, 32, 32, 32), (32, 3, 3), pads=(1, 1, 1, 1), strides=(8, 8))
    small = [convolution(wide.output, (32, 1, 1)), convolution(wide.output, (32, 1, 1), seed=3)]
    shapes = {"x": Shape(1, 32, 32, 32)} | {name: Shape(*wide.output) for name in "tuy"}
    bound = tuple(Bound(one, {"x": x, "y": y}) for one, x, y in zip([wide, *small], "xtu", "tuy", strict=True))
    return Region("uneven", shapes, ("x",), ("y",), bound, {})


def compiled(region: Region, streams: int, timed: bool = True) -> CompiledRegion:
    machine = chip(1, 4)
    return compile_region(machine, load_kernels(machine), region, Options(streams=streams, timed_streams=timed))


def test_a_tiny_network_is_no_slower_on_more_cores() -> None:
    found = {streams: compiled(three_convolutions(6), streams) for streams in (1, 2, 3, 4)}
    assert found[1].cycles >= max(found[streams].cycles for streams in (2, 3, 4))
    assert found[2].cycles >= found[4].cycles
    assert found[4].cycles < compiled(three_convolutions(6), 4, timed=False).cycles


def test_a_mixture_is_exact() -> None:
    best = compiled(uneven(), 4)
    assert [bool(group.streams) for group in best.schedule.groups] == [True, False, False]
    assert best.cycles < min(compiled(uneven(), 1).cycles, compiled(uneven(), 2, timed=False).cycles)
    assert all(proven(best, best.program.machine, seed) for seed in (None, 1))


def test_barriers_are_a_line_of_the_schedule() -> None:
    plain = compiled(three_convolutions(6), 4, timed=False)
    schedule = replace(plain.schedule, barriers=True)
    text = write_schedule(schedule)
    assert write_schedule(read(text)) == text
    assert ", barriers: true" in text
    assert "barriers" not in write_schedule(plain.schedule)
    met = compile_region(plain.program.machine, load_kernels(plain.program.machine), three_convolutions(6), None, read(text))
    assert max(amounts(plain.program)) == 1 < max(amounts(met.program))
    assert len(met.program) < len(plain.program)
    assert all(proven(met, met.program.machine, seed) for seed in (None, 1))


def test_cycles_that_operations_spent_add_up() -> None:
    found = compiled(three_convolutions(6), 4, timed=False)
    owned = found.owner >= 0
    assert spent(found).sum() == found.timeline.result.end[owned].max()
    assert (spent(found) >= 0).all()
