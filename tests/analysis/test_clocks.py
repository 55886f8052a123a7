"""Vector clocks against every possible execution of small nets, C against Python, and faults that one order does not show."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from tests.random_tokens import Net, any_net, entries, fetched, net, pair_net, rows, single_ended
from tests.token_machine import mask, program, token_machine
from toolchain.analysis.clocks import Edges, edges, happens_before, match, sync_faults, token_clocks
from toolchain.analysis.order import issue_order, simulate
from toolchain.isa.program import Program
from toolchain.isa.sync_tokens import ALL_PRIOR, COUNTING, Coupled, sync_tokens
from toolchain.spec.model import Machine


def known(case: Net) -> Edges:
    order = np.arange(len(case.queue))
    return edges(match(case.tokens, order, case.queue), np.zeros(len(case.tokens.names), np.bool_), len(order))


def lists(start: np.ndarray, value: np.ndarray) -> list[list[int]]:
    return [value[a:b].tolist() for a, b in itertools.pairwise(start)]


def test_the_first_posted_is_the_first_taken() -> None:
    found = known(net([0, 0, 1, 1], 2, [{}, {}, {0: 1}, {0: 1}], [{0: 1}, {0: 1}, {}, {}], [-1], [0]))
    assert lists(found.start, found.poster) == [[], [], [0], [1]]


def test_initial_tokens_come_from_nobody() -> None:
    found = known(net([0, 1, 1], 2, [{}, {0: 1}, {0: 1}], [{0: 1}, {}, {}], [-1], [1]))
    assert lists(found.start, found.poster) == [[], [], [0]]


def test_the_last_of_several_tokens_of_one_queue_tells_all() -> None:
    found = known(net([0, 0, 1], 2, [{}, {}, {0: 2}], [{0: 1}, {0: 1}, {}], [-1], [0]))
    assert lists(found.start, found.poster) == [[], [], [1]]


def test_every_poster_of_a_barrier_counts() -> None:
    found = known(net([0, 1, 2], 3, [{}, {}, {0: 2}], [{0: 1}, {0: 1}, {}], [-1], [0]))
    assert lists(found.start, found.poster) == [[], [], [0, 1]]


def test_a_taker_makes_room_for_a_later_post() -> None:
    found = known(net([0, 1, 0, 1], 2, [{}, {0: 1}, {}, {0: 1}], [{0: 1}, {}, {0: 1}, {}], [1], [0]))
    assert lists(found.held_start, found.held) == [[], [], [1], []]
    assert lists(found.start, found.room) == [[], [-1], [], [1]]


State = tuple[tuple[int, ...], tuple[int, ...], tuple[tuple[tuple[int, int], ...], ...], tuple[int, ...]]
"""Per queue: instructions started, instructions complete, posts still owed; then the counters."""


def clocks(case: Net, seed: int | None = None) -> np.ndarray:
    return token_clocks(case.tokens, simulate(case.table, case.tokens, seed).order, case.queue, np.zeros(case.queues, np.bool_))


def finishes(case: Net) -> bool:
    return int(simulate(case.table, case.tokens).head.sum()) == len(case.queue)


def least_done(case: Net) -> np.ndarray:
    """[n, queues]: the fewest instructions of each queue complete at an instruction's start, over all executions."""
    queues = [np.flatnonzero(case.queue == q).tolist() for q in range(case.queues)]
    zero = (0,) * case.queues
    start: State = (zero, zero, ((),) * case.queues, tuple(case.tokens.initial.tolist()))
    least = np.full((len(case.queue), case.queues), len(case.queue))
    seen, stack = {start}, [start]
    while stack:
        state = stack.pop()
        for began, after in steps(case, queues, state):
            if began >= 0:
                least[began] = np.minimum(least[began], state[1])
            if after not in seen:
                seen.add(after)
                stack.append(after)
    return least


def steps(case: Net, queues: list[list[int]], state: State) -> Iterator[tuple[int, State]]:
    """Every next event: (instruction that starts or -1, state after)."""
    begun, done, owed, held = state

    def put(values: tuple, at: int, value: object) -> tuple:
        return (*values[:at], value, *values[at + 1 :])

    for q, mine in enumerate(queues):
        if begun[q] > done[q]:
            yield -1, (begun, put(done, q, begun[q]), put(owed, q, tuple(entries(case.tokens.posts, mine[done[q]]))), held)
        for k, (c, a) in enumerate(owed[q]):
            if case.tokens.depth[c] < 0 or held[c] + a <= case.tokens.depth[c]:
                yield -1, (begun, done, put(owed, q, owed[q][:k] + owed[q][k + 1 :]), put(held, c, held[c] + a))
        if begun[q] == done[q] and not owed[q] and begun[q] < len(mine) and fetched(case, mine[begun[q]], begun):
            takes = entries(case.tokens.waits, mine[begun[q]])
            if all(held[c] >= a for c, a in takes):
                left = list(held)
                for c, a in takes:
                    left[c] -= a
                yield mine[begun[q]], (put(begun, q, begun[q] + 1), done, owed, tuple(left))


FULL = net([0, 0, 0, 1, 1], 2, [{}, {}, {}, {0: 1}, {0: 1}], [{0: 1}, {0: 1}, {}, {}, {1: 1}], [1, -1], [0, 0])


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@example(FULL)
@given(any_net(most=6))
def test_clocks_are_exact_where_each_counter_has_one_poster_and_one_taker(case: Net) -> None:
    case = replace(single_ended(case), room=())
    assume(finishes(case))
    assert np.array_equal(clocks(case), least_done(case))


TWO_POSTERS = net([0, 1, 2], 3, [{}, {}, {0: 1}], [{0: 1}, {0: 1}, {}], [-1], [0])
SPANS_TWO_WAITS = net([0, 1, 0, 2, 0], 3, [{}, {}, {0: 2}, {}, {0: 1}], [{}, {0: 1}, {}, {0: 2}, {}], [-1], [1])
TWO_TAKERS = net([0, 0, 1, 2], 3, [{}, {}, {0: 1}, {0: 1}], [{0: 1}, {0: 1}, {}, {}], [-1], [0])


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@example(TWO_POSTERS)
@example(TWO_TAKERS)
@example(SPANS_TWO_WAITS)
@given(any_net(most=6))
def test_clocks_never_claim_what_some_execution_breaks(case: Net) -> None:
    assume(finishes(case))
    assert (clocks(case) <= least_done(case)).all()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([-1, 1, 3]))
def test_clocks_do_not_depend_on_the_order_or_the_compiler(seed: int, depth: int) -> None:
    case = pair_net(80, seed, depth=depth)
    native = clocks(case)
    assert np.array_equal(clocks(case, seed), native)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEWRIGHT_CC", "none")
        assert np.array_equal(clocks(case), native)


def barrier_net(rounds: int, members: int) -> Net:
    """Every member posts to all members' counters, then waits for one token of each member."""
    queue, waits, posts = [], [], []
    for _ in range(rounds):
        for q in range(members):
            queue += [q, q]
            waits += [{}, {q: members}]
            posts += [dict.fromkeys(range(members), 1), {}]
    return net(queue, members, waits, posts, [-1] * members, [0] * members)


def test_a_barrier_orders_all_its_members() -> None:
    clock = clocks(barrier_net(3, 4)).reshape(3, 4, 2, 4)
    for turn in range(3):
        for q in range(4):
            others = np.arange(4) != q
            assert (clock[turn, q, 0, others] >= (2 * turn - 1 if turn else 0)).all()
            assert (clock[turn, q, 1, others] == 2 * turn + 1).all()


def test_overlapping_instructions_of_a_unit_are_ordered_by_tokens_alone() -> None:
    machine = token_machine()
    loose = replace(machine, units=tuple(replace(u, overlaps=u.name == "a") for u in machine.units))
    rows = [{"unit": 0}, {"unit": 0, "posts": mask("ab")}, {"unit": 0}, {"unit": 1, "waits": mask("ab")}]
    for chosen, own in ((machine, [0, 1, 2]), (loose, [0, 0, 0])):
        code = program(chosen, rows)
        clock = happens_before(code, issue_order(code))
        assert clock.dtype == np.int32
        assert clock[:3, 0].tolist() == own
        assert clock[3].tolist() == [2, 0, 0]


def test_the_start_of_a_coupled_instruction_tells_nothing_of_those_that_feed_it() -> None:
    """1 (on queue 1) starts while 0 is at work and takes a token: that lets 3's post go, and 4 must not conclude that 0 is done."""
    waits, posts = [{}, {0: 1, 1: 1}, {}, {}, {}], [{0: 1}, {}, {1: 1}, {1: 1}, {}]
    case = net([0, 1, 2, 2, 2], 3, waits, posts, [-1, 1], [0, 0])
    mode = np.array([ALL_PRIOR, COUNTING])
    ends = rows([{}, {0: 1}, {}, {}, {}])
    apart, coupled = (replace(case, tokens=replace(case.tokens, mode=mode, coupled=c)) for c in (None, Coupled(np.array([0, -1]), ends)))
    assert [clocks(c)[1, 0] for c in (apart, coupled)] == [1, 1]
    assert [clocks(c)[4, 0] for c in (apart, coupled)] == [1, 0]


def faults(code: Program) -> list[str]:
    tokens = sync_tokens(code)
    order = issue_order(code, None, tokens)
    return [d.headline() for d in sync_faults(code, tokens, order, happens_before(code, order, tokens))]


def ending(machine: Machine) -> Machine:
    """A second instruction END, on unit a, that must be the last to run."""
    end = replace(machine.instruction["OP"], name="END")
    rules = tuple(replace(r, instructions=("OP", "END")) for r in machine.sync)
    return replace(machine, instructions=(*machine.instructions, end), sync=rules, program=replace(machine.program, ends="END", last=True))


def with_end(*rows: dict[str, int]) -> Program:
    """The last row is the END."""
    code = program(ending(token_machine()), rows)
    kind, n = code.kind.copy(), len(rows) - 1
    kind[-1] = 1
    columns = tuple({k: v[part] for k, v in code.columns[0].items()} for part in (slice(0, n), slice(n, None)))
    row = code.row.copy()
    row[-1] = 0
    return replace(code, kind=kind, row=row, columns=columns)


def test_an_end_that_waits_for_every_unit_is_fine() -> None:
    assert faults(with_end({"unit": 1, "posts": mask("ba")}, {"unit": 0}, {"unit": 0, "waits": mask("ba")})) == []


def test_an_end_that_another_unit_may_outlive() -> None:
    assert faults(with_end({"unit": 1}, {"unit": 0})) == [
        "E0506 #1 END at 0x10 must be the last to run, but #0 OP at 0x0 may still be under way; let it wait for unit b"
    ]


def test_a_token_that_came_earlier_does_not_cover_what_follows() -> None:
    found = faults(with_end({"unit": 1, "posts": mask("ba")}, {"unit": 1}, {"unit": 0, "waits": mask("ba")}))
    assert found[0].startswith("E0506 #2 END at 0x20 must be the last to run, but #1 OP at 0x10")


FLAGS = {"ab": ", mode: flag"}


def test_a_flag_posted_twice_without_an_answer_may_lose_a_token() -> None:
    rows = [{"unit": 0, "posts": mask("ab")}, {"unit": 1, "waits": mask("ab")}, {"unit": 0, "posts": mask("ab")}, {"unit": 1, "waits": mask("ab")}]
    (found,) = faults(program(token_machine(FLAGS), rows))
    assert found.startswith("E0504 #2 OP at 0x20 may post to the flag ab before #1 OP at 0x10 took the token before: one is lost")


def test_a_flag_that_is_answered_before_the_next_post_is_fine() -> None:
    rows = [
        {"unit": 0, "posts": mask("ab")},
        {"unit": 1, "waits": mask("ab"), "posts": mask("ba")},
        {"unit": 0, "waits": mask("ba"), "posts": mask("ab")},
        {"unit": 1, "waits": mask("ab")},
    ]
    assert faults(program(token_machine(FLAGS), rows)) == []
