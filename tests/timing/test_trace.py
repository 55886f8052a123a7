"""Lives of data on chip: each within its memory, from a write to a read, and never two at one address and time.

The trace: JSON that a viewer reads, real microseconds, one row a unit, no event on top of another.

Occupancy: equal to a count, granule by granule, of data that an instruction still reads."""

import io
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.random_programs import random_program
from tests.target_runs import load_golden, timed
from tests.token_machine import mask, program, token_machine
from toolchain.isa.decode import decode
from toolchain.isa.footprint.footprints import granules
from toolchain.spec.load import load_machine
from toolchain.timing.simulate import Timeline
from toolchain.timing.trace import POINTS, RANGES, lives_of, occupancy, write_events, write_trace

GOLDEN = Path(__file__).parents[1] / "data" / "vta_golden" / "c00_conv3x3_s1.npz"
SHARED = """
timing:
  clock_khz: {value: 2000, source: test}
  resources:
    port: {bytes_per_cycle: 1, policy: fifo, source: test}
  classes:
    op: {cycles: work, transfers: {port: bytes}, source: test}
"""


def random_timeline() -> Timeline:
    return timed(random_program(load_machine("vta"), 1, 60, chained=1.0))


def test_lives_do_not_meet_and_stay_in_their_memory() -> None:
    found = list(lives_of(random_timeline()))
    assert found
    for _, lives in found:
        assert (lives.begin < lives.stop).all()
        assert (lives.low < lives.high).all()
        assert lives.high.max() <= lives.capacity
        order = np.lexsort((lives.begin, lives.low))
        same = lives.low[order][1:] == lives.low[order][:-1]
        assert (lives.begin[order][1:] >= lives.stop[order][:-1])[same].all()


def test_a_life_begins_with_its_writer() -> None:
    timeline = random_timeline()
    for _, lives in lives_of(timeline):
        known = lives.writer >= 0
        assert (timeline.result.start[lives.writer[known]] == lives.begin[known]).all()
        assert (lives.begin[~known] == 0).all()


def test_bytes_alive_are_the_occupancy() -> None:
    timeline = random_timeline()
    for (_, lives), found in zip(lives_of(timeline), occupancy(timeline), strict=True):
        for at, size in zip(found.cycles, found.bytes, strict=True):
            alive = (lives.begin <= at) & (at < lives.stop)
            assert (lives.high - lives.low)[alive].sum() == size


@pytest.fixture(scope="module")
def convolution() -> Timeline:
    return timed(decode(load_machine("vta"), [load_golden(GOLDEN)]))


def events(timeline: Timeline) -> list[dict[str, Any]]:
    file = io.StringIO()
    write_events(timeline, file)
    return json.loads(file.getvalue())["traceEvents"]


def small() -> Timeline:
    machine = token_machine({"ab": ", depth: 1"}, timing=SHARED)
    rows = [
        {"unit": 0, "work": 4, "posts": mask("ab")},
        {"unit": 0, "work": 2, "posts": mask("ab")},
        {"unit": 0, "work": 1, "posts": mask("ab")},
        {"unit": 1, "work": 9, "waits": mask("ab"), "bytes": 10},
        {"unit": 1, "work": 1, "waits": mask("ab")},
        {"unit": 1, "work": 1, "waits": mask("ab")},
        {"unit": 2, "work": 6, "bytes": 8},
    ]
    return timed(program(machine, rows))


def test_the_text_of_a_small_trace(golden: Callable[[str, str], None]) -> None:
    file = io.StringIO()
    write_events(small(), file)
    golden("timing/small.trace.json", file.getvalue())


def test_every_instruction_tells_its_layer_whatever_it_is_called() -> None:
    file, names = io.StringIO(), ["", 'a"\\</script>', "stage/conv1"] * 3
    timeline = small()
    write_events(timeline, file, names[: len(timeline.program)])
    spans = [event for event in json.loads(file.getvalue())["traceEvents"] if event["ph"] == "X" and event.get("cat") != "idle"]
    kinds = [timeline.program.machine.instructions[int(kind)].name for kind in timeline.program.kind]
    assert [event["name"] for event in spans] == [f"{kind} {name}".strip() for kind, name in zip(kinds, names, strict=False)]
    assert [event["args"].get("layer", "") for event in spans] == names[: len(spans)]


def test_counters_are_the_occupancy_of_each_memory(convolution: Timeline) -> None:
    found = [event for event in events(convolution) if event["ph"] == "C"]
    scale = 1000.0 / convolution.program.machine.timing.clock_khz
    for room in occupancy(convolution):
        own = [event for event in found if event["name"].startswith(f"{room.memory},")]
        assert [event["args"]["bytes"] for event in own] == room.bytes.tolist()
        assert [event["ts"] for event in own] == pytest.approx((room.cycles * scale).tolist(), abs=1e-6)
    assert {event["pid"] for event in found} == {convolution.program.machine.streams}


def test_microseconds_at_the_stated_clock(convolution: Timeline) -> None:
    spans = [e for e in events(convolution) if e["ph"] == "X" and e.get("cat") != "idle"]
    assert len(spans) == len(convolution.program)
    assert np.allclose([e["ts"] for e in spans], convolution.result.start / 100.0, atol=1e-6)
    assert max(e["ts"] + e["dur"] for e in spans) == pytest.approx(convolution.result.end.max() / 100.0, abs=1e-5)


def test_rows_hold_one_thing_at_a_time(convolution: Timeline) -> None:
    rows: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for e in events(convolution):
        if e["ph"] == "X":
            rows.setdefault((e["pid"], e["tid"]), []).append((e["ts"], e["ts"] + e["dur"]))
    assert set(rows) == {(0, 0), (0, 1), (0, 2)}
    for spans in rows.values():
        spans.sort()
        assert all(end <= start + 2e-6 for (_, end), (start, _) in itertools.pairwise(spans))


def test_the_same_program_gives_the_same_bytes(convolution: Timeline, tmp_path: Path) -> None:
    write_trace(convolution, tmp_path / "one.json")
    write_trace(timed(decode(load_machine("vta"), [load_golden(GOLDEN)])), tmp_path / "two.json")
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


def test_streams_are_processes_named_by_their_place() -> None:
    machine = token_machine(topology="topology: {cluster: {count: 2}, core: {count: 2, streams: true}}\n")
    names = [e["args"]["name"] for e in events(timed(program(machine, *[[{"work": 1}]] * 4))) if e["name"] == "process_name"]
    assert names == ["cluster 0 core 0", "cluster 0 core 1", "cluster 1 core 0", "cluster 1 core 1"]


def lives(timeline: Timeline, memory: int, block: int) -> list[tuple[float, float]]:
    """By brute force: every block's accesses one after the other."""
    runs, found = timeline.footprints.runs, []
    start, end = timeline.result.start, timeline.result.end
    accesses: dict[int, list[tuple[float, bool, float]]] = {}
    for row in np.flatnonzero(runs.memory == memory).tolist():
        i = int(runs.instruction[row])
        for place in range(int(runs.start[row]) // block, (int(runs.stop[row]) - 1) // block + 1):
            accesses.setdefault(place, []).append((float(start[i]), bool(runs.write[row]), float(end[i])))
    for rows in accesses.values():
        written, read = 0.0, -1.0
        for began, write, ended in sorted(rows):
            if write:
                found.append((written, min(read, began)))
                written, read = began, -1.0
            else:
                read = max(read, ended)
        found.append((written, read))
    return [(a, b) for a, b in found if b > a]


@pytest.mark.parametrize("target", ["vta", "dpuv3", "dnnvm"])
@pytest.mark.parametrize("seed", range(4))
def test_it_counts_what_is_still_read(target: str, seed: int) -> None:
    machine = load_machine(target)
    timeline = timed(random_program(machine, seed, 60, chained=1.0))
    seen = 0
    for found in occupancy(timeline):
        number = machine.memories.index(machine.memory[found.memory])
        size = machine.memories[number].granule
        assert found.block in (size, -(-(found.capacity // size) // RANGES) * size)
        each = lives(timeline, number, found.block // size)
        for at, held in zip(found.cycles.tolist(), found.bytes.tolist(), strict=True):
            assert held == min(sum(a <= at < b for a, b in each) * found.block, found.capacity)
        seen += bool(each)
        assert found.capacity % (granules(machine.memory[found.memory]) * size) == 0
    assert seen or not any(m.kind in ("scratchpad", "ring") for m in machine.memories)


def test_long_programs_keep_their_peaks(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = load_machine("vta")
    timeline = timed(random_program(machine, 1, 80, chained=1.0))
    fine = occupancy(timeline)
    monkeypatch.setattr("toolchain.timing.trace.POINTS", 4)
    for whole, coarse in zip(fine, occupancy(timeline), strict=True):
        assert len(coarse.cycles) <= 4 < POINTS
        assert coarse.bytes.max() == whole.bytes.max()


def test_ranges_are_rounded_outwards_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = load_machine("vta")
    timeline = timed(random_program(machine, 2, 80, chained=1.0))
    fine = {found.memory: found for found in occupancy(timeline)}
    monkeypatch.setattr("toolchain.timing.trace.RANGES", 2)
    coarse = {found.memory: found for found in occupancy(timeline)}
    assert any(coarse[name].block > fine[name].block for name in fine)
    assert all(coarse[name].bytes.max() >= fine[name].bytes.max() for name in fine)
