"""The interlock against a plain walk over every cell; programs run as in their own order, whatever the time."""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedule.cells import EVERY, UNITS, Op, cells, copies, memory, program
from tests.schedule.laws import assert_ordered, complaints, derive
from tests.token_machine import program as token_program
from tests.token_machine import token_machine
from toolchain.analysis.checks import prepare_program
from toolchain.analysis.clocks import happens_before
from toolchain.analysis.dependences import accesses_by_memory
from toolchain.analysis.footprints import footprints
from toolchain.analysis.interlock import held_instructions, program_tokens
from toolchain.analysis.order import issue_order
from toolchain.analysis.state import State, new_state
from toolchain.emulator import reference
from toolchain.isa.checks import build_program
from toolchain.isa.encode import encode_streams
from toolchain.isa.footprint.provenance import Provenance
from toolchain.isa.program import Program, program_queues
from toolchain.spec.errors import UserError
from toolchain.spec.model import Interlock, Machine
from toolchain.timing.cost import Costs, Ports
from toolchain.timing.event_run import SimulationResult
from toolchain.timing.simulate import simulate, time_program


def held(made: Program) -> list[list[int]]:
    state, order = memory(made.machine), np.arange(len(made))
    provenance = Provenance(made, state, order)
    accesses = accesses_by_memory(made, footprints(made, state, order, provenance).runs, provenance)
    found: list[list[int]] = held_instructions(made, accesses).latest.tolist()
    return found


def machine(interlock: str) -> Machine:
    return cells({}, nops="", interlock=interlock)


@dataclass(frozen=True)
class Rule:
    """An interlock as text, and as the plain walk needs it. pairs: (earlier, later) units."""

    text: str
    pairs: frozenset[tuple[int, int]]
    block: int = 1
    back: int = 1000


ALL = frozenset((a, b) for a in range(3) for b in range(3))
RULES = [
    Rule("{memories: [ram]}", ALL),
    Rule("{fences: [IDLE]}", ALL),
    Rule("{granularity: {ram: 2}}", ALL, 2),
    Rule("{granularity: {ram: 0}, looks_back: 3}", ALL, 16, 3),
    Rule("{pairs: [{from: a, to: b}, {from: b, to: b}], looks_back: 2}", frozenset({(0, 1), (1, 1)}), 1, 2),
]


def meet(op: Op, other: Op, block: int) -> bool:
    source, to = op.source // block, op.to // block
    return other.to // block in (source, to) or other.source // block == to


@given(ops=copies(most=30), rule=st.sampled_from(RULES))
@settings(max_examples=30, deadline=None)
def test_those_whose_cells_meet_are_held(ops: list[Op], rule: Rule) -> None:
    found = held(program(machine(rule.text), ops))
    for index, op in enumerate(ops):
        before = [(i, other) for i, other in enumerate(ops[:index]) if i >= index - rule.back and (other.unit, op.unit) in rule.pairs]
        assert found[index] == [max((i for i, other in before if other.unit == u and meet(op, other, rule.block)), default=-1) for u in range(3)]


@given(ops=st.lists(st.builds(Op, st.integers(0, 2), st.integers(0, 15), st.integers(0, 15), event=st.sampled_from(["", "posts"])), max_size=20))
@settings(max_examples=25, deadline=None)
def test_a_fence_holds_and_is_held(ops: list[Op]) -> None:
    found = held(program(machine("{pairs: [{from: a, to: a}], fences: [IDLE]}"), ops))
    for index, op in enumerate(ops):
        before = list(enumerate(ops[:index]))
        for unit in range(len(UNITS)):
            of_unit = [(i, other) for i, other in before if other.unit == unit]
            fences = max((i for i, other in of_unit if other.event), default=-1)
            expected = max((i for i, _ in of_unit), default=-1) if op.event else fences
            assert found[index][unit] == expected or (not op.event and op.unit == unit == 0 and found[index][unit] > expected)


def test_a_window_of_one_runs_one_after_the_other() -> None:
    ops = [Op(0, 1, 2), Op(1, 3, 4), Op(2, 5, 6), Op(1, 7, 8)]
    assert held(program(machine("{window: 1}"), ops)) == [[-1, -1, -1], [0, -1, -1], [0, 1, -1], [0, 1, 2], [0, 3, 2]]


def test_without_an_interlock_nothing_is_held() -> None:
    assert held(program(cells({}), [Op(0, 1, 2), Op(1, 2, 3)])) == [[-1, -1, -1]] * 3


A, B, C = range(3)
INTERLOCKS = ["{fences: [END]}", "{window: 1}", "{window: 3, fences: [END]}", "{window: 2, granularity: {ram: 4}, fences: [END]}"]
SOME = "{pairs: [{from: a, to: b}, {from: b, to: b}], looks_back: 4, window: 5}"
"""An interlock that leaves something to counters."""


def locked(interlock: str = "{fences: [END]}", overlaps: str = "") -> Machine:
    return cells({}, nops="", interlock=interlock, overlaps=overlaps)


def timed(made: Program, costs: Costs) -> SimulationResult:
    return simulate(program_queues(made), program_tokens(made, memory(made.machine)), costs, [])


def random_costs(n: int, seed: int) -> Costs:
    columns = np.random.default_rng(seed).integers(0, 30, (3, n))
    empty = np.zeros(0, np.int64)
    return Costs(columns[0], columns[1], columns[2], Ports((), empty), np.zeros(n + 1, np.int64), empty, empty, empty, empty)


@pytest.mark.parametrize("interlock", INTERLOCKS)
@given(ops=copies(most=24))
@settings(max_examples=15, deadline=None)
def test_nothing_is_emitted_and_nothing_races(interlock: str, ops: list[Op]) -> None:
    machine = locked(interlock, overlaps="b")
    found = derive(program(machine, ops), memory(machine), (None, 1, 2))
    assert found.tokens == 0
    assert len(found.program) == len(ops) + 1


@given(ops=copies(most=30), seed=st.integers(0, 1000), interlock=st.sampled_from([*INTERLOCKS, SOME]))
@settings(max_examples=25, deadline=None)
def test_random_times_give_the_same_memory(ops: list[Op], seed: int, interlock: str) -> None:
    machine = cells(EVERY, interlock=interlock, overlaps="ac") if interlock == SOME else locked(interlock, overlaps="ac")
    made, state = program(machine, ops), memory(machine)
    if interlock == SOME:
        made = derive(made, state, ()).program
    after = [state.copy(), state.copy()]
    reference.run(made, after[0], np.arange(len(made)))
    result = timed(made, random_costs(len(made), seed))
    reference.run(made, after[1], result.order)
    np.testing.assert_array_equal(after[0].memories["ram"], after[1].memories["ram"])


@given(ops=copies(quiet=True, most=30), depth=st.sampled_from([0, 1, 3]), shape=st.sampled_from(["", ", depth: 1", ", mode: flag"]))
@settings(max_examples=25, deadline=None)
def test_tokens_order_what_the_interlock_leaves(ops: list[Op], depth: int, shape: str) -> None:
    machine = cells(EVERY | {"ac": shape}, interlock=SOME, depth=depth)
    made, state = program(machine, ops), memory(machine)
    found = derive(made, state, (None, 1, 2))
    plain = derive(program(cells(EVERY | {"ac": shape}, depth=depth), ops), memory(machine), ())
    assert shape or found.tokens <= plain.tokens + len(found.program) - len(plain.program)  # neighbours that become one where a counter is short


@given(ops=copies(most=20), window=st.integers(1, 4), seed=st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_no_more_are_under_way_than_the_window_holds(ops: list[Op], window: int, seed: int) -> None:
    made = program(locked(f"{{window: {window}, pairs: [{{from: a, to: a}}]}}"), ops)
    costs = random_costs(len(made), seed)
    result = timed(made, costs)
    done = result.end + costs.latency
    for k in range(len(made)):
        assert int((done[:k] > result.start[k]).sum()) < window


@given(ops=copies(most=24), seed=st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_who_is_held_starts_when_the_other_is_done(ops: list[Op], seed: int) -> None:
    """Also within one unit: its latency binds neighbours that depend on each other, and no others."""
    made = program(locked(), ops)
    costs = random_costs(len(made), seed)
    result = timed(made, costs)
    done = result.end + costs.latency
    for k, op in enumerate(ops):
        others = [i for i, o in enumerate(ops[:k]) if o.to in (op.source, op.to) or o.source == op.to]
        own = [result.released[i] for i, o in enumerate(ops[:k]) if o.unit == op.unit]
        assert result.start[k] >= max((done[i] for i in others), default=0.0)
        ready = max([0.0, *own, *(float(done[i]) for i in others), *(float(done[i]) for i, o in enumerate(ops[:k]) if o.unit in needed(ops, k))])
        assert result.start[k] <= ready


def needed(ops: list[Op], k: int) -> set[int]:
    """The units of which an instruction waits for some: visible results come in order, so it may meet an earlier one that is late."""
    op = ops[k]
    return {o.unit for o in ops[:k] if o.to in (op.source, op.to) or o.source == op.to}


RACES = {
    "a memory that is not watched": ("{pairs: [{from: a, to: a}], fences: [END]}", 1),
    "a pair that is not watched": ("{pairs: [{from: b, to: a}], fences: [END]}", 1),
    "one that stands further back": ("{looks_back: 2, fences: [END]}", 3),
}


@pytest.mark.parametrize("name", RACES)
def test_what_the_interlock_does_not_see_is_a_race(name: str) -> None:
    interlock, distance = RACES[name]
    ops = [Op(A, 0, 1), *[Op(A, 2, 3)] * (distance - 1), Op(B, 1, 4)]
    machine = locked(interlock)
    assert "E0601" in [d.code for d in complaints(program(machine, ops), memory(machine))]
    with pytest.raises(UserError, match="E0520"):
        derive(program(machine, ops), memory(machine), ())
    seen = locked()
    assert complaints(program(seen, ops), memory(seen)) == ()


FENCED = [
    "{pairs: [{from: a, to: b}], fences: [IDLE]}",
    "{looks_back: 2, fences: [IDLE, END], window: 3}",
    "{granularity: {ram: 3}, looks_back: 1, fences: [IDLE]}",
]


@pytest.mark.parametrize("interlock", FENCED)
@given(ops=copies(most=24), overlaps=st.sampled_from(["", "a"]))
@settings(max_examples=20, deadline=None)
def test_a_fence_is_added_where_nothing_else_orders(interlock: str, ops: list[Op], overlaps: str) -> None:
    machine = cells({}, nops="c", interlock=interlock, overlaps=overlaps)
    found = derive(program(machine, ops), memory(machine), (None, 1, 2))
    assert found.tokens == 0
    idle = [i.name for i in machine.instructions].index("IDLE")
    assert (found.program.kind[found.source < 0] == idle).all()


def test_one_fence_serves_all_that_comes_after() -> None:
    """Three values cross from a to c; the fence stands before the first one that needs it, and once more where a new one was made."""
    machine = cells({}, nops="b", interlock="{pairs: [{from: a, to: a}], fences: [IDLE, END]}")
    ops = [Op(A, 0, 1), Op(A, 0, 2), Op(C, 9, 8), Op(C, 1, 3), Op(C, 2, 4), Op(A, 0, 5), Op(C, 5, 6)]
    assert derive(program(machine, ops), memory(machine)).source.tolist() == [0, 1, 2, -1, 3, 4, 5, -1, 6, 7]


@given(ops=copies(quiet=True, most=30), shape=st.sampled_from(["", ", depth: 1"]))
@settings(max_examples=25, deadline=None)
def test_fences_beside_tokens(ops: list[Op], shape: str) -> None:
    machine = cells(dict.fromkeys(("ab", "ba"), shape), nops="abc", interlock="{pairs: [{from: a, to: a}], fences: [IDLE]}")
    derive(program(machine, ops), memory(machine), (None, 1, 2))


def test_an_end_that_is_no_fence_may_come_early() -> None:
    machine = locked("{}")
    assert [d.code for d in complaints(program(machine, [Op(B, 0, 1)]), memory(machine))] == ["E0506"]
    with pytest.raises(UserError, match="with END among its fences"):
        derive(program(machine, [Op(B, 0, 1)]), memory(machine), ())


def test_a_full_window_holds_up_the_next_one() -> None:
    """Twelve cycles each on three units: side by side, or two at a time."""
    ops = [Op(A, 11, 1), Op(B, 11, 2), Op(C, 11, 3)]
    cycles = [timed_cycles(locked(f"{{window: {window}, fences: [END]}}"), ops) for window in (3, 2, 1)]
    assert cycles == [13, 25, 37]


def test_a_latency_binds_neighbours_that_depend_on_each_other() -> None:
    """Ten instructions of one cycle on one unit, whose results are visible 32 cycles later."""
    chained = [Op(A, 0, 0)] * 10
    apart = [Op(A, 0, k + 1) for k in range(10)]
    plain, bound = cells(EVERY, latency="32"), cells(EVERY, latency="32", interlock="{pairs: [{from: a, to: a}]}")
    assert timed_cycles(plain, chained) == timed_cycles(plain, apart) == timed_cycles(bound, apart)
    assert timed_cycles(bound, chained) == timed_cycles(plain, chained) + 9 * 32


def timed_cycles(machine: Machine, ops: list[Op]) -> float:
    made = program(machine, ops)
    ready = prepare_program(made, memory(machine))
    return time_program(made, ready.footprints, ready.provenance, ready.tokens).cycles


def test_clocks_do_not_trust_a_window() -> None:
    """It says how many instructions are done, not which."""
    machine = locked("{window: 2, pairs: [{from: a, to: a}], fences: [END]}")
    made, state = program(machine, [Op(A, 0, 1), Op(B, 2, 3), Op(C, 1, 4)]), memory(machine)
    tokens = program_tokens(made, state)
    assert happens_before(made, issue_order(made, None, tokens), tokens)[2].tolist() == [0, 0, 0]


def test_without_an_interlock_tokens_are_those_of_the_fields() -> None:
    machine = cells(EVERY)
    made = derive(program(machine, [Op(A, 0, 1), Op(B, 1, 2)]), memory(machine)).program
    assert program_tokens(made, memory(machine)).names == tuple(EVERY)
    assert_ordered(made, memory(machine))


SHARED = ["b", "ab", "abc"]
"""Units that a quiet instruction keeps to itself besides its own."""


def members(machine: Machine, ops: list[Op], unit: int) -> list[int]:
    """The instructions that occupy a unit, in order."""
    shared = machine.instruction["QUIET"].occupies
    return [k for k, op in enumerate(ops) if op.unit == unit or (op.quiet and machine.units[unit].name in shared)]


@pytest.mark.parametrize("occupies", SHARED)
@given(ops=copies(quiet=True, most=24), overlaps=st.sampled_from(["", "a", "abc"]))
@settings(max_examples=20, deadline=None)
def test_an_instruction_on_several_units_is_ordered_without_a_token(occupies: str, ops: list[Op], overlaps: str) -> None:
    machine = (
        cells(EVERY, occupies=occupies, overlaps=overlaps) if not overlaps else cells(EVERY | {f"{u}{u}": "" for u in overlaps}, occupies=occupies)
    )
    derive(program(machine, ops), memory(machine), (None, 1, 2))


@pytest.mark.parametrize("occupies", SHARED)
@given(ops=copies(quiet=True, most=24), seed=st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_those_that_occupy_one_unit_never_run_at_once(occupies: str, ops: list[Op], seed: int) -> None:
    machine = cells(EVERY, occupies=occupies)
    result = timed(program(machine, ops), random_costs(len(ops) + 1, seed))
    for unit in range(3):
        inside = members(machine, ops, unit)
        assert all(result.start[after] >= result.released[before] for before, after in pairwise(inside))


def test_units_that_are_not_occupied_go_on() -> None:
    """Ten cycles on a and b; c works beside them, b waits for its turn."""
    ops = [Op(A, 9, 1, quiet=True), Op(B, 9, 2), Op(C, 9, 3)]
    machines = [cells(EVERY, occupies=occupies) for occupies in ("", "b", "bc")]
    assert [starts(program(m, ops), memory(m))[:3] for m in machines] == [[0, 0, 0], [0, 10, 0], [0, 10, 10]]


def starts(made: Program, state: State) -> list[float]:
    ready = prepare_program(made, state)
    found: list[float] = time_program(made, ready.footprints, ready.provenance, ready.tokens).result.start.tolist()
    return found


def test_a_token_from_beyond_the_window_never_comes() -> None:
    """b and c wait for a's instruction, which is not issued while both are under way."""
    machine = cells(EVERY, interlock="{window: 2}")
    made = program(machine, [Op(B, 0, 1), Op(C, 3, 4), Op(A, 5, 6)])
    bits, columns = list(EVERY), [{name: column.copy() for name, column in kind.items()} for kind in made.columns]
    for row, (field, pairs) in enumerate([("waits", ["ab"]), ("waits", ["ac"]), ("posts", ["ab", "ac"])]):
        columns[1][field][row] = sum(1 << bits.index(pair) for pair in pairs)
    streams, offset = encode_streams(machine, made.kind, made.stream, columns)
    stuck = build_program(machine, streams, made.kind, made.stream, offset, tuple(columns))
    with pytest.raises(UserError) as caught:
        prepare_program(stuck, memory(machine))
    said = [d.message for d in caught.value.diagnostics]
    assert said[2] == (
        "deadlock: #2 COPY at 0x10 is not issued before 1 of the instructions ahead of it are done, because the window is full; 0 are: "
        "#0 COPY at 0x0 would make room, but it is blocked"
    )


def test_every_stream_has_an_interlock_of_its_own() -> None:
    """Windows of two and of one: the streams run side by side."""
    machine = token_machine(topology="topology: {core: {count: 2, streams: true}}\n")
    machine = replace(machine, interlock=Interlock((), window=2))
    one, two = [{"unit": k, "work": 10} for k in range(3)], [{"unit": k, "work": 7} for k in (2, 1, 0)]
    made = token_program(machine, one, two)
    tokens = program_tokens(made, new_state(machine))
    assert [name for name in tokens.names if "window" in name] == ["interlock.window of stream 0", "interlock.window of stream 1"]
    assert starts(made, new_state(machine)) == [0, 0, 10, 0, 0, 7]
    machine = replace(machine, interlock=Interlock((), window=1))
    assert starts(token_program(machine, one, two), new_state(machine)) == [0, 10, 20, 0, 7, 14]
