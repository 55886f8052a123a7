"""Issue order: legal, the same in C and Python, and a deadlock exactly where every schedule has one.

Deadlocks and lost tokens, told in full.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.random_tokens import Net, any_net, entries, fetched, is_legal, pair_net, single_ended
from tests.token_machine import mask, program, token_machine
from toolchain.analysis.order import issue_order, leftovers, simulate
from toolchain.spec.errors import UserError


def op(unit: int, waits: str = "", posts: str = "", **fields: int) -> dict[str, int]:
    return {"unit": unit, "waits": mask(waits), "posts": mask(posts), **fields}


DEADLOCKS = {
    "at_the_end": [op(0, posts="bc"), op(0, posts="bc")],
    "nobody": [op(0), op(1, "ab")],
    "all_taken": [op(0, posts="ab"), op(1, "ab"), op(1, "ab")],
    "cycle": [op(0, "ca", "ab"), op(1, "ab", "bc"), op(2, "bc", "ca")],
    "behind": [op(0, "ba"), op(0, posts="ab"), op(1, "ab", "ba")],
    "itself": [op(0, "ba"), op(1, "ab", "ba"), op(0, posts="ab")],
    "too_many": [op(0, posts="ab"), op(0, posts="ab"), op(1, "ab", amount=3)],
}


@pytest.mark.parametrize("name", DEADLOCKS)
def test_a_deadlock_says_who_waits_for_what_and_why(name: str, golden: Callable[[str, str], None]) -> None:
    with pytest.raises(UserError) as caught:
        issue_order(program(token_machine({"bc": ", depth: 1"}), DEADLOCKS[name]))
    golden(f"queues/deadlock_{name}.txt", f"{caught.value}\n")


def test_a_full_counter_is_part_of_the_reason(golden: Callable[[str, str], None]) -> None:
    machine = token_machine({"ab": ", depth: 1", "bc": ", depth: 1"})
    stuck = program(machine, [op(0, posts="ab"), op(0, posts="ab"), op(0, posts="bc"), op(1, "bc"), op(1, "ab"), op(1, "ab")])
    with pytest.raises(UserError) as caught:
        issue_order(stuck)
    golden("queues/deadlock_full.txt", f"{caught.value}\n")


def test_a_short_queue_is_part_of_the_reason(golden: Callable[[str, str], None]) -> None:
    machine = token_machine()
    short = replace(machine, units=tuple(replace(u, depth=2 if u.name == "a" else None) for u in machine.units))
    rows = [op(0, "ba"), op(0), op(0), op(1, "", "ba"), op(2)]
    assert issue_order(program(machine, rows)).tolist() == [3, 0, 1, 2, 4]
    with pytest.raises(UserError) as caught:
        issue_order(program(short, rows))
    golden("queues/deadlock_short_queue.txt", f"{caught.value}\n")


def test_a_flag_loses_its_second_token(golden: Callable[[str, str], None]) -> None:
    machine = token_machine({"ab": ", mode: flag"})
    with pytest.raises(UserError) as caught:
        issue_order(program(machine, [op(0, posts="ab"), op(0, posts="ab"), op(1, "ab"), op(1, "ab")]))
    golden("queues/lost_token.txt", f"{caught.value}\n")


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([-1, 1, 3]))
def test_every_seed_gives_a_legal_order(seed: int, depth: int) -> None:
    case = pair_net(60, seed, depth=depth)
    orders = [simulate(case.table, case.tokens, s).order for s in (None, seed, seed + 1)]
    for order in orders:
        assert sorted(order) == list(range(60))
        assert is_legal(case, order.tolist())


def test_seeds_differ_and_the_earliest_goes_first() -> None:
    case = pair_net(200, 3)
    earliest, one, two = (simulate(case.table, case.tokens, s).order for s in (None, 1, 2))
    assert np.array_equal(earliest, np.arange(200))
    assert not np.array_equal(one, two)


@settings(max_examples=40, deadline=None)
@given(any_net(most=7))
def test_deadlock_is_what_exhaustive_search_finds(case: Net) -> None:
    case = single_ended(case)
    assert (int(simulate(case.table, case.tokens).head.sum()) == len(case.queue)) == can_finish(case)


def can_finish(case: Net) -> bool:
    """Searches every schedule, posts being events of their own."""
    queues = [np.flatnonzero(case.queue == q).tolist() for q in range(case.queues)]
    start = ((0,) * case.queues, ((),) * case.queues, tuple(case.tokens.initial.tolist()))
    seen, stack = {start}, [start]
    while stack:
        head, owed, held = stack.pop()
        if all(h == len(q) for h, q in zip(head, queues, strict=True)) and not any(owed):
            return True
        for q in range(case.queues):
            for after in successors(case, queues[q], q, head, owed, held):
                if after not in seen:
                    seen.add(after)
                    stack.append(after)
    return False


def successors(case: Net, mine: list[int], q: int, head: tuple[int, ...], owed: tuple[tuple[tuple[int, int], ...], ...], held: tuple[int, ...]):
    """One post of queue q, or the start of its next instruction."""

    def put(values: tuple, at: int, value: object) -> tuple:
        return (*values[:at], value, *values[at + 1 :])

    for k, (c, a) in enumerate(owed[q]):
        if case.tokens.depth[c] < 0 or held[c] + a <= case.tokens.depth[c]:
            yield head, put(owed, q, owed[q][:k] + owed[q][k + 1 :]), put(held, c, held[c] + a)
    if not owed[q] and head[q] < len(mine) and fetched(case, mine[head[q]], head):
        takes = entries(case.tokens.waits, mine[head[q]])
        if all(held[c] >= a for c, a in takes):
            left = list(held)
            for c, a in takes:
                left[c] -= a
            yield put(head, q, head[q] + 1), put(owed, q, tuple(entries(case.tokens.posts, mine[head[q]]))), tuple(left)


def made(unit: int, waits: str = "", posts: str = "", **fields: int) -> dict[str, int]:
    return {"unit": unit, "waits": mask(waits), "posts": mask(posts), **fields}


def test_all_prior_waits_for_every_earlier_instruction_of_the_source() -> None:
    machine = token_machine({"ab": ", mode: all_prior"})
    code = program(machine, [made(2, posts="ca"), made(0, "ca"), made(0), made(1, "ab"), made(1, "ab"), made(0)])
    assert issue_order(code).tolist() == [0, 1, 2, 3, 4, 5]
    for seed in range(8):
        order = issue_order(code, seed).tolist()
        assert max(order.index(1), order.index(2)) < order.index(3)


def test_leftover_tokens_are_a_warning(golden: Callable[[str, str], None]) -> None:
    code = program(token_machine({"ba": ", initial: 1"}), [made(0, "ba", "ab"), made(0, "", "ab"), made(1, "ab")])
    assert len(issue_order(code)) == 3
    golden("queues/leftovers.txt", "".join(d.render() + "\n" for d in leftovers(code)))
