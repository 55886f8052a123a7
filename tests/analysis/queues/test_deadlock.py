"""Deadlocks and lost tokens, told in full."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.token_machine import mask, program, token_machine
from toolchain.analysis.queues.order import issue_order
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
