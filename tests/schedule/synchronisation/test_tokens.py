"""Flags: a second token must certainly come after the first was taken. Which tokens are chosen, in small cases; and what no token can say."""

import pytest

from tests.schedule.cells import EVERY, Op, cells, memory, program
from tests.schedule.laws import derive, token_pairs
from toolchain.schedule.synchronisation.synchronise import synchronise
from toolchain.spec.errors import UserError
from toolchain.spec.model import Machine

A, B, C = range(3)

TWICE = [Op(A, 0, 1), Op(B, 1, 2), Op(A, 0, 3), Op(B, 3, 4)]
LATE = [Op(A, 0, 1), Op(A, 0, 3), Op(B, 1, 2), Op(B, 3, 4)]

FULL = cells(EVERY)
STAR = dict.fromkeys(("ab", "ba", "bc", "cb"), "")


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


def tokens(machine: Machine, *ops: Op) -> list[tuple[str, int, int]]:
    """Those between copies; the end's are left out."""
    found = synchronise(program(machine, ops), memory(machine)).program
    return [pair for pair in token_pairs(found) if pair[2] < len(found) - 1]


def test_read_after_write_write_after_read_write_after_write() -> None:
    assert tokens(FULL, Op(A, 0, 1), Op(B, 1, 2)) == [("ab", 0, 1)]
    assert tokens(FULL, Op(A, 0, 1), Op(B, 2, 0)) == [("ab", 0, 1)]
    assert tokens(FULL, Op(A, 0, 1), Op(B, 2, 1)) == [("ab", 0, 1)]
    assert tokens(FULL, Op(A, 0, 1), Op(B, 0, 2)) == []


def test_a_later_consumer_knows_what_an_earlier_one_waited_for() -> None:
    assert tokens(FULL, Op(A, 0, 1), Op(B, 1, 2), Op(B, 1, 3)) == [("ab", 0, 1)]


def test_what_other_tokens_imply_is_left_out() -> None:
    assert tokens(FULL, Op(A, 0, 1), Op(B, 1, 2), Op(C, 2, 1)) == [("ab", 0, 1), ("bc", 1, 2)]


def test_units_that_share_no_counter_meet_through_one_that_idles() -> None:
    machine = cells(STAR)
    found = synchronise(program(machine, [Op(A, 0, 1), Op(C, 1, 2)]), memory(machine))
    assert found.source.tolist() == [0, -1, 1, -1, 2]
    assert list(token_pairs(found.program))[:2] == [("ab", 0, 1), ("ba", 3, 4)]
    assert [machine.instructions[k].name for k in found.program.kind.tolist()] == ["COPY", "IDLE", "COPY", "IDLE", "END"]


def test_an_instruction_that_knows_passes_on_for_nothing() -> None:
    machine = cells(STAR)
    found = synchronise(program(machine, [Op(A, 0, 1), Op(B, 1, 2), Op(C, 1, 3)]), memory(machine))
    assert next(token_pairs(found.program)) == ("ab", 0, 1)
    assert ("bc", 1, 2) in list(token_pairs(found.program))
    assert found.source.tolist() == [0, 1, 2, -1, 3]


def test_without_an_idle_instruction_the_latest_of_the_unit_waits() -> None:
    machine = cells(STAR, nops="")
    found = synchronise(program(machine, [Op(A, 0, 1), Op(B, 4, 5), Op(C, 1, 3), Op(B, 3, 6)]), memory(machine))
    assert found.source.tolist() == [0, 1, 2, 3, 4]
    assert [p for p in token_pairs(found.program) if p[0] in ("ab", "bc")] == [("ab", 0, 1), ("bc", 1, 2)]


def test_no_way_to_say_it() -> None:
    lonely = cells(dict.fromkeys(("ab", "ba"), ""))
    with pytest.raises(UserError, match="E0520 unit 'c' must wait for #0 COPY, and no counters lead there from unit 'a'"):
        synchronise(program(lonely, [Op(A, 0, 1), Op(C, 1, 2)]), memory(lonely))
    silent = cells(STAR, nops="")
    with pytest.raises(UserError, match=r"E0520 what follows #0 COPY needs an instruction of unit 'b' that can wait on 'ab', .*sync.nops.b"):
        synchronise(program(silent, [Op(A, 0, 1), Op(C, 1, 2)]), memory(silent))


def test_the_end_waits_for_every_unit() -> None:
    found = synchronise(program(FULL, [Op(B, 0, 1), Op(C, 2, 3)]), memory(FULL)).program
    assert list(token_pairs(found)) == [("ba", 0, 2), ("ca", 1, 2)]
