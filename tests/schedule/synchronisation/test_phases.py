"""Cores that the host stops and starts: what they share is exact, nothing runs across a barrier, and each barrier costs the price of the host."""

from functools import cache

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedule.test_options import cores, exact, random_region, two_convolutions
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.compiled_region import CompiledRegion
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options
from toolchain.schedule.synchronisation.phases import stopping_events
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine


@cache
def shared() -> CompiledRegion:
    """Two convolutions, the second of which reads rows that the other core made."""
    return compile_region(cores(), load_kernels(cores()), two_convolutions(), Options(streams=2, timed_streams=False))


def named(compiled: CompiledRegion, name: str) -> list[int]:
    kinds = [instruction.name for instruction in compiled.program.machine.instructions]
    return np.flatnonzero(compiled.program.kind == kinds.index(name)).tolist()


@given(seed=st.integers(0, 1 << 30), steps=st.integers(2, 4))
@settings(max_examples=4, deadline=None)
def test_any_region_is_exact_whoever_runs_its_tiles(seed: int, steps: int) -> None:
    region = random_region(cores(), seed, steps)
    if region is not None:
        try:
            compiled = compile_region(cores(), load_kernels(cores()), region, Options(streams=2, timed_streams=False))
        except UserError as error:
            assert error.diagnostics[0].code in ("E1003", "E1004", "E1008"), error  # noqa: PT017 what a kernel refuses is its own matter
        else:
            assert exact(compiled, cores(), None)
            assert exact(compiled, cores(), 1)


def test_all_units_of_a_core_are_done_when_it_stops_and_none_goes_on_before_it_starts() -> None:
    compiled, (start, end) = shared(), (shared().timeline.result.start, shared().timeline.result.end)
    stops, starts = named(compiled, "STOP"), named(compiled, "START")
    assert len(stops) == len(starts) >= 2
    for stop, go in zip(stops, starts, strict=True):
        mine = np.flatnonzero(compiled.program.stream == compiled.program.stream[stop])
        assert go == stop + 1
        assert (end[mine[mine < stop]] <= start[stop]).all()
        assert (start[mine[mine > go]] >= end[go]).all()
        assert (start[go] + 50 * 330 <= end[go]).all()  # microseconds at 330 MHz


def test_a_region_that_the_host_s_price_would_slow_down_stays_on_one_core() -> None:
    one, two = (compile_region(cores(), load_kernels(cores()), two_convolutions(), Options(streams=count)) for count in (1, 2))
    assert two.cycles == one.cycles < shared().cycles
    assert two.schedule == one.schedule
    assert not named(two, "STOP")


def test_only_what_a_machine_s_file_says_stands_still() -> None:
    assert stopping_events(cores()) is not None
    assert stopping_events(load_machine("stcp920")) is None
