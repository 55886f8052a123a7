"""The numpy and the C form of the hazard check against one that walks granule by granule in Python.

What checks say of a program that they do not refuse.
"""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiny_machine import streams, tiny, word
from toolchain.analysis.hazards.races import RAW, UNWRITTEN, WAR, WAW, Hazards, Timeline, find_hazards, hazards, soundness
from toolchain.isa.binary.decode import decode
from toolchain.isa.footprint.footprints import Footprints, Runs, granules, join_faults, join_runs, merge_runs
from toolchain.isa.footprint.provenance import positions

MACHINE = tiny("pass")
DRAM, FEAT = (next(i for i, m in enumerate(MACHINE.memories) if m.name == name) for name in ("dram", "feat"))


def plain_hazards(prints: Footprints, timeline: Timeline) -> dict[tuple[int, int, int, int], tuple[int, int]]:
    """(first, second, kind, memory) -> first granule and the end of the last."""
    found: dict[tuple[int, int, int, int], list[int]] = defaultdict(list)
    writer: dict[tuple[int, int], int] = {}
    readers: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    runs = prints.runs
    for second in timeline.order.tolist():
        mine = [r for r in range(len(runs)) if runs.instruction[r] == second]
        cells = [
            {(int(runs.memory[r]), g) for r in mine if bool(runs.write[r]) == write for g in range(int(runs.start[r]), int(runs.stop[r]))}
            for write in (False, True)
        ]
        for write, touched in enumerate(cells):
            for cell in touched:
                if cell not in writer:
                    if not write:
                        found[-1, second, UNWRITTEN, cell[0]].append(cell[1])
                elif timeline.unordered(np.array([writer[cell]]), np.array([second]))[0]:
                    found[writer[cell], second, WAW if write else RAW, cell[0]].append(cell[1])
        for cell in cells[1]:
            for first in readers.pop(cell, {}).values():
                if timeline.unordered(np.array([first]), np.array([second]))[0]:
                    found[first, second, WAR, cell[0]].append(cell[1])
            writer[cell] = second
        for cell in cells[0] - cells[1]:
            readers[cell][int(timeline.queue[second])] = second
    return {key: (min(value), max(value) + 1) for key, value in found.items()}


def as_dict(found: Hazards) -> dict[tuple[int, int, int, int], tuple[int, int]]:
    rows = zip(*(getattr(found, name).tolist() for name in Hazards.__dataclass_fields__), strict=True)
    return {(first, second, kind, memory): (start, stop) for first, second, kind, memory, start, stop in rows}


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 4), st.integers(0, 60), st.sampled_from((3, 20, 48)))
def test_three_ways_agree(seed: int, count: int, queues: int, touches: int, spread: int) -> None:
    rng = np.random.default_rng(seed)
    program = decode(MACHINE, streams([word(0)] * (count - 1), []))
    start = rng.integers(0, spread, touches)
    stop = start + rng.integers(1, 9, touches)
    memory = rng.choice((DRAM, FEAT), touches)
    stop = np.minimum(stop, [granules(MACHINE.memories[m]) for m in memory])
    keep = start < stop
    runs = Runs(rng.integers(0, count, touches), memory, rng.random(touches) < 0.4, start, stop).take(keep)
    none = np.zeros((len(program), len(MACHINE.memories)), np.int64)
    prints = Footprints(program, merge_runs(runs), join_runs([]), join_faults([]), none, none, frozenset())
    order, queue = rng.permutation(len(program)), rng.integers(0, queues, len(program))
    place = np.zeros(len(program), np.int64)
    for q in range(queues):
        mine = order[queue[order] == q]
        place[mine] = np.arange(len(mine))
    clock = rng.integers(0, count + 1, (len(program), queues)).astype(np.int32)
    clock[np.arange(len(program)), queue] = place
    timeline = Timeline(order, positions(order, len(program)), queue, place, clock)
    expected = plain_hazards(prints, timeline)
    vector, native = find_hazards(prints, timeline), hazards(prints, timeline)
    for name in Hazards.__dataclass_fields__:
        assert np.array_equal(getattr(vector, name), getattr(native, name)), name
    assert as_dict(vector) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("toolchain.analysis.hazards.races.BLOCK", 7)
        assert as_dict(find_hazards(prints, timeline)) == expected


@pytest.mark.parametrize(
    ("tolerated", "text"),
    [
        ({}, "no deadlock, no race, every address in range"),
        ({"E0601": 1}, "no deadlock, every address in range, 1 race that the machine's file calls a warning"),
        ({"E0601": 318}, "no deadlock, every address in range, 318 races that the machine's file calls warnings"),
        ({"E0602": 1}, "no deadlock, no race, every address in range, 1 read of what nothing has written that the machine's file calls a warning"),
        (
            {"E0602": 2, "E0601": 1},
            "no deadlock, every address in range, 1 race and 2 reads of what nothing has written that the machine's file calls warnings",
        ),
    ],
)
def test_no_race_is_said_where_there_is_none(tolerated: dict[str, int], text: str) -> None:
    assert soundness(tolerated) == text
