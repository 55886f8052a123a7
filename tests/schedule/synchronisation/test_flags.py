"""Flags: a second token must certainly come after the first was taken."""

import pytest

from tests.schedule.cells import EVERY, Op, cells, memory, program
from tests.schedule.laws import derive, token_pairs
from toolchain.schedule.synchronisation.synchronise import synchronise
from toolchain.spec.errors import UserError

A, B = range(2)
TWICE = [Op(A, 0, 1), Op(B, 1, 2), Op(A, 0, 3), Op(B, 3, 4)]
LATE = [Op(A, 0, 1), Op(A, 0, 3), Op(B, 1, 2), Op(B, 3, 4)]


def between(machine_counters: dict[str, str], ops: list[Op]) -> list[tuple[str, int, int]]:
    machine = cells(machine_counters)
    found = derive(program(machine, ops), memory(machine)).program
    return [pair for pair in token_pairs(found) if pair[2] < len(ops)]


def test_the_taker_acknowledges() -> None:
    assert between(EVERY, TWICE) == [("ab", 0, 1), ("ab", 2, 3)]
    assert between(EVERY | {"ab": ", mode: flag"}, TWICE) == [("ab", 0, 1), ("ab", 2, 3), ("ba", 1, 2)]
    assert between(EVERY | {"ab": ", mode: flag", "ba": ", mode: flag"}, TWICE) == [("ab", 0, 1), ("ab", 2, 3), ("ba", 1, 2)]


def test_two_tokens_become_one_where_the_second_is_posted_before_the_first_is_taken() -> None:
    assert between(EVERY, LATE) == [("ab", 0, 2), ("ab", 1, 3)]
    assert between(EVERY | {"ab": ", mode: flag"}, LATE) == [("ab", 1, 2)]


def test_nobody_can_know() -> None:
    machine = cells({"ab": ", mode: flag", "ca": "", "ba": ", initial: 1", "bc": ""}, nops="")
    with pytest.raises(UserError, match="E0520 no instruction of unit 'a' can know that the flag 'ab' was taken"):
        synchronise(program(machine, TWICE), memory(machine))
