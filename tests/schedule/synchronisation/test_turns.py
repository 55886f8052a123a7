"""Turns: whom an instruction waits for at the ports of banks, in the program's order and in another one."""

import numpy as np

from tests.schedule.synchronisation.banked_programs import turns
from toolchain.schedule.synchronisation.turns import placed_turns


def test_an_instruction_waits_for_the_last_one_at_its_banks_where_one_reads_the_same() -> None:
    """Unit a copies from bank 0 to 1, from 3 to 1, and from 2 to 0; unit b, whose turn it is, from bank 0 to 3."""
    found = turns(("a", 0, 1), ("a", 3, 1), ("a", 2, 0), ("b", 0, 3))
    assert found is not None
    assert found.tolist() == [[-1, -1, -1]] * 3 + [[0, -1, -1]]


def test_others_at_the_same_banks_count_too() -> None:
    """The second copy writes into the bank that `b` writes."""
    found = turns(("a", 0, 1), ("a", 2, 3), ("b", 0, 3))
    assert found is not None
    assert found[2].tolist() == [1, -1, -1]


def test_nobody_waits_where_nothing_is_read_twice_or_ports_are_free() -> None:
    assert turns(("a", 0, 1), ("b", 2, 1)) is None
    assert turns(("b", 0, 1), ("a", 0, 3)) is None
    assert turns(("a", 0, 1), ("b", 0, 3), free=True) is None


def test_turns_follow_the_instructions() -> None:
    given = np.array([[-1, -1], [0, -1], [-1, -1]], np.int32)
    assert placed_turns(given, np.array([2, 0, 1])).tolist() == [[-1, -1], [-1, -1], [1, -1]]
