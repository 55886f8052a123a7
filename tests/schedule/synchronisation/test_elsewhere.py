"""Synchronisation that another cluster's program lends is the one that the program would have of its own."""

from dataclasses import replace

import pytest

import toolchain.schedule.synchronisation.elsewhere as elsewhere
from tests.schedule.many_cores import chip
from tests.schedule.test_compile_region import three_convolutions
from toolchain.isa.program import Program
from toolchain.schedule.compile_region import compile_region, find_schedule
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options


@pytest.mark.parametrize(("copies", "streams", "multicast", "lent"), [(4, 1, True, 1), (2, 2, False, 1), (2, 1, False, 1), (4, 1, False, 3)])
def test_it_is_the_same_as_ones_own(copies: int, streams: int, multicast: bool, lent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    machine, region = chip(2, 2), three_convolutions(24)
    kernels = load_kernels(machine)
    options = Options(copies=copies, streams=streams, timed_streams=False, effort=0)
    schedule = replace(find_schedule(machine, kernels, region, options), multicast=multicast)
    asked, serves = list[bool](), elsewhere.Solved.serves

    def seen(self: elsewhere.Solved, other: Program) -> bool:
        asked.append(serves(self, other))
        return asked[-1]

    monkeypatch.setattr(elsewhere.Solved, "serves", seen)
    found = compile_region(machine, kernels, region, None, schedule).program
    assert asked == [True] * lent
    monkeypatch.setattr(elsewhere.Solved, "serves", lambda *_: False)
    own = compile_region(machine, kernels, region, None, schedule).program
    assert found.streams == own.streams
    assert len(set(found.streams)) > 1


def test_streams_that_meet_serve_those_of_other_clusters_only() -> None:
    machine, region = chip(1, 4), three_convolutions(24)
    kernels = load_kernels(machine)
    schedule = find_schedule(machine, kernels, region, Options(copies=2, streams=2, timed_streams=False))
    compiled = compile_region(machine, kernels, region, None, replace(schedule, multicast=False))
    assert compiled.checked.warnings == ()  # masks of cores count from the cluster's first, so the second copy has a synchronisation of its own
