"""Every cycle of every unit has a cause, bytes are those of the program, and the critical path adds up to the time."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.target_runs import load_golden, timed
from tests.timing.test_trace import small
from tests.token_machine import mask, program, token_machine
from toolchain.isa.decode import decode
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine
from toolchain.timing.simulate import Timeline
from toolchain.timing.usage import critical_path, summarise, summary_data, summary_text, table

PROGRAMS = sorted((Path(__file__).parents[1] / "data" / "vta_golden").glob("*.npz"))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
def test_it_adds_up_to_the_time(path: Path) -> None:
    timeline = timed(decode(load_machine("vta"), [load_golden(path)]))
    assert sum(critical_path(timeline).values()) == pytest.approx(timeline.cycles)


@pytest.mark.parametrize("path", [p for p in PROGRAMS if p.stem.startswith("c")], ids=lambda p: p.stem)
def test_it_adds_up_where_queues_and_counters_are_short(path: Path) -> None:
    machine = load_machine("vta", "hls", {"QUEUE_DEPTH": "8", "TOKEN_DEPTH": "2"})
    timeline = timed(decode(machine, [load_golden(path)]))
    assert sum(critical_path(timeline).values()) == pytest.approx(timeline.cycles)


def test_a_shuffled_program_does_not_pass_through_short_queues() -> None:
    """Its queues' instructions stand in an order in which eight places are too few."""
    data = load_golden(next(p for p in PROGRAMS if p.stem.startswith("r12")))
    assert timed(decode(load_machine("vta"), [data])).cycles > 0
    with pytest.raises(UserError, match="does not fit into the queue of compute, which holds 8"):
        timed(decode(load_machine("vta", "hls", {"QUEUE_DEPTH": "8"}), [data]))


def test_it_follows_tokens_and_queues() -> None:
    rows = [
        {"unit": 0, "work": 5, "posts": mask("ab")},
        {"unit": 1, "work": 1},
        {"unit": 1, "work": 7, "waits": mask("ab"), "posts": mask("bc")},
        {"unit": 2, "work": 3},
        {"unit": 2, "work": 2, "waits": mask("bc")},
    ]
    assert critical_path(timed(program(token_machine(), rows))) == {"b": 7, "a": 5, "c": 2}


def test_it_goes_on_where_room_was_made() -> None:
    """Unit a is held until unit b takes a token, which is where b's longest instruction starts."""
    assert critical_path(small()) == {"b": 16, "a": 4}


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


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert table(["name", "n"], [["a", "1000"], ["longer", "1"]], left=(0,)) == ["name       n", "a       1000", "longer     1"]


def test_no_rows_leave_the_head() -> None:
    assert table(["a", "b"], []) == ["a  b"]


def test_lines_do_not_end_in_blanks() -> None:
    assert table(["a", "cause"], [["1", ""]], left=(1,)) == ["a  cause", "1"]


def test_small(golden: Callable[[str, str], None]) -> None:
    golden("timing/small.txt", summary_text(small()))
    golden("timing/small.json", json.dumps(summary_data(small()), indent=2) + "\n")


def test_a_program_that_takes_no_time() -> None:
    text = summary_text(timed(program(token_machine(), [{"unit": 0, "work": 0}])))
    assert "1 instructions, 0 cycles, 0.000 ms at 1 MHz" in text
