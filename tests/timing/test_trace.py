"""The trace: JSON that a viewer reads, real microseconds, one row a unit, no event on top of another."""

import io
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.target_runs import load_golden, timed
from tests.token_machine import mask, program, token_machine
from toolchain.isa.binary.decode import decode
from toolchain.spec.load import load_machine
from toolchain.timing.simulate import Timeline
from toolchain.timing.trace import write_events, write_trace

GOLDEN = Path(__file__).parents[1] / "data" / "vta_golden" / "c00_conv3x3_s1.npz"
SHARED = """
timing:
  clock_khz: {value: 2000, source: test}
  resources:
    port: {bytes_per_cycle: 1, policy: fifo, source: test}
  classes:
    op: {cycles: work, transfers: {port: bytes}, source: test}
"""


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
