"""Where the cycles go: every cycle of every unit has a cause, bytes are those of the program, the basis is named."""

from pathlib import Path

import pytest

from tests.target_runs import load_golden, timed
from toolchain.isa.binary.decode import decode
from toolchain.spec.load import load_machine
from toolchain.timing.simulate import Timeline
from toolchain.timing.usage import summarise

GOLDEN = sorted((Path(__file__).parents[1] / "data" / "vta_golden").glob("c0*.npz"))


@pytest.fixture(scope="module", params=GOLDEN, ids=lambda p: p.stem)
def timeline(request: pytest.FixtureRequest) -> Timeline:
    return timed(decode(load_machine("vta"), [load_golden(request.param)]))


def test_every_cycle_has_a_cause(timeline: Timeline) -> None:
    summary = summarise(timeline)
    assert summary.instructions == len(timeline.program)
    for unit in summary.units:
        assert unit.busy + unit.contended + unit.held + unit.waiting + unit.done == pytest.approx(summary.cycles * unit.instances)
        assert sum(unit.waits.values()) == pytest.approx(unit.waiting)
    assert sum(u.instructions for u in summary.units) == summary.instructions


def test_no_program_is_faster_than_its_bound(timeline: Timeline) -> None:
    summary = summarise(timeline)
    assert 0 < summary.bound_cycles <= summary.cycles
    assert all(r.capacity_percent <= 100 for r in summary.resources)


def test_time_is_cycles_at_the_clock(timeline: Timeline) -> None:
    summary = summarise(timeline)
    assert summary.ms == pytest.approx(summary.cycles / 100_000)


def test_only_numbers_that_took_part_are_named() -> None:
    machine = load_machine("vta")
    data = load_golden(GOLDEN[0])
    names = {b.name for b in summarise(timed(decode(machine, [data]))).constants}
    assert names == {"clock_khz", "GEMM_LATENCY", "DMA_SETUP", "PAD_CYCLES", "read_port bytes per 1 cycles", "write_port bytes per 1 cycles"}
    finish = data[-16:]
    assert {b.name for b in summarise(timed(decode(machine, [finish]))).constants} == {"clock_khz"}
