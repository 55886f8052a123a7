"""Races: the numpy and the C form against a walk granule by granule in Python, and races for lost values, which are none."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.test_checks import FACTORS, INP, UOPS, WGT
from tests.tiny_machine import streams, tiny, word
from toolchain.analysis.checks import check_program
from toolchain.analysis.races import RAW, UNWRITTEN, WAR, WAW, Executed, Hazards, find_hazards, hazards, soundness
from toolchain.analysis.state import new_state
from toolchain.emulator import engine_named
from toolchain.isa.assembly import assemble
from toolchain.isa.decode import decode
from toolchain.isa.footprint.footprints import Footprints, Runs, granules, join_faults, join_runs, merge_runs
from toolchain.isa.footprint.provenance import positions
from toolchain.spec.errors import Source, UserError
from toolchain.spec.load import load_machine

MACHINE = tiny("pass")
DRAM, FEAT = (next(i for i, m in enumerate(MACHINE.memories) if m.name == name) for name in ("dram", "feat"))


def plain_hazards(prints: Footprints, timeline: Executed) -> dict[tuple[int, int, int, int], tuple[int, int]]:
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
    timeline = Executed(order, positions(order, len(program)), queue, place, clock)
    expected = plain_hazards(prints, timeline)
    vector, native = find_hazards(prints, timeline), hazards(prints, timeline)
    for name in Hazards.__dataclass_fields__:
        assert np.array_equal(getattr(vector, name), getattr(native, name)), name
    assert as_dict(vector) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("toolchain.analysis.races.BLOCK", 7)
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


HLS = load_machine("vta:hls")
CLEAR = f"GEMM reset=1 uop_bgn=0 uop_end=1 iter_out=1 iter_in=16 {FACTORS}\n"
GEMM = f"GEMM uop_bgn=0 uop_end=1 iter_out=1 iter_in=16 {FACTORS}"
STORE = "STORE memory_type=out sram_base=0 dram_base=8192 y_size=1 x_size=16 x_stride=16"
LOADS = f"{INP}\n{WGT} push_next=1\n"


def codes(text: str) -> set[str]:
    program, state = assemble(HLS, Source("case.asm", text)), new_state(HLS)
    try:
        return {d.code for d in check_program(program, state).warnings}
    except UserError as error:
        return {d.code for d in error.diagnostics}


def test_a_clearing_product_of_what_is_still_being_loaded_is_overwritten_before_it_is_stored() -> None:
    """It races with both loads and reads sums that nothing has written; of that nothing is left."""
    assert codes(f"{UOPS}{LOADS}{CLEAR}{GEMM} pop_prev=1 push_next=1\n{STORE} pop_prev=1 push_prev=1\nFINISH pop_next=1\n") == set()


def test_a_clearing_product_that_is_stored_matters() -> None:
    assert codes(f"{UOPS}{LOADS}{CLEAR.strip()} pop_prev=1 push_next=1\n{STORE} pop_prev=1 push_prev=1\nFINISH pop_next=1\n") == {"E0602"}
    clear = f"{UOPS}{LOADS}{CLEAR}LOAD memory_type=uop sram_base=9 dram_base=1024 y_size=1 x_size=1 x_stride=1 pop_prev=1 push_next=1\n"
    assert codes(f"{clear}{STORE} pop_prev=1 push_prev=1\nFINISH pop_next=1\n") == {"E0601", "E0602"}


def test_one_element_that_is_not_overwritten_matters() -> None:
    short = GEMM.replace("iter_in=16", "iter_in=15")
    assert codes(f"{UOPS}{LOADS}{CLEAR}{short} pop_prev=1 push_next=1\n{STORE} pop_prev=1 push_prev=1\nFINISH pop_next=1\n") == {"E0601", "E0602"}


def test_a_read_that_matters_is_not_hidden_behind_one_that_is_lost() -> None:
    """Both instructions read what the last load writes over, and only the later one is named by a hazard."""
    late = f"{UOPS}{LOADS}{CLEAR}{GEMM} pop_prev=1\n{CLEAR}{GEMM.replace('uop_bgn=0 uop_end=1', 'uop_bgn=0 uop_end=0')} push_next=1\n{INP}\n"
    assert "E0601" in codes(f"{late}FINISH\n")


def test_what_stays_unread_is_lost_in_a_transient_memory_only() -> None:
    """On chip, sums outlive a program, and the buffer for stores does not."""
    assert codes(f"{UOPS}{LOADS}{CLEAR}FINISH pop_prev=1\n") == set()
    loaded = "LOAD memory_type=acc sram_base=0 dram_base=64 y_size=1 x_size=16 x_stride=16\n"
    assert "E0601" in codes(f"{UOPS}{loaded}{LOADS}{GEMM}\nFINISH pop_prev=1\n")


def test_a_transient_memory_is_written_before_it_is_read_even_where_the_host_fills_it() -> None:
    program = assemble(HLS, Source("case.asm", f"{STORE} push_prev=1\nFINISH pop_next=1\n"))
    with pytest.raises(UserError, match="E0602 #0 STORE at 0x0 reads out"):
        check_program(program, new_state(HLS), ["out"])


@pytest.mark.parametrize(
    ("semantics", "unwritten"),
    [
        ("if n == 1:\n    feat[0, 0] = loop[0]\nelse:\n    feat[0, 0] = dram.row[0]", False),
        ("if n == 1:\n    feat[0, 0][c] = loop[0][c]\nelse:\n    feat[0, 0][1] = dram.row[0][1]", True),
        ("if n == 1:\n    feat[0, 0] = loop[0]\nelif n == 2:\n    feat[0, 0] = dram.row[0]\nelse:\n    feat[1, 1] = feat[0, 0]", False),
        ("if n == 1:\n    feat[0, 0][c] = loop[0][c] + feat[0, 0][c] * 0\nelse:\n    feat[0, 0] = dram.row[0]", True),
        ("t[c]: i32 = loop[0][c] * 0\nif n == 1:\n    feat[0, 0][c] = t[c]\nelse:\n    feat[0, 0] = dram.row[0]", False),
    ],
    ids=["overwritten", "one lane overwritten", "overwritten before a reader", "read back by itself", "by a temporary"],
)
def test_what_is_overwritten(semantics: str, unwritten: bool) -> None:
    machine = tiny(semantics)
    memories = tuple(replace(m, transient=m.name == "feat") for m in machine.memories)
    program = decode(replace(machine, memories=memories), streams([word(0, n=1), word(0, n=2), word(0, n=3)]))
    state = new_state(program.machine)
    with pytest.raises(UserError, match="which nothing has written"):  # were the memory another program's too
        check_program(replace(program, machine=machine), state)
    if unwritten:
        with pytest.raises(UserError, match="which nothing has written"):
            check_program(program, state)
        return
    order = check_program(program, state).order
    ends: list[bytes] = []
    for garbage in (0, 85):
        state = new_state(program.machine)
        state.memories["loop"][:] = garbage
        engine_named("fast")(program, state, order)
        ends.append(state.memories["feat"].tobytes())
    assert ends[0] == ends[1]
    assert np.any(np.frombuffer(ends[0], np.uint8) == 0)
