"""A side that knows little compares as one: nothing of it is shared with another."""

from toolchain.report.comparison.side import BUILD, LESS, MORE, NEITHER, Side


def test_what_is_not_known_is_empty_and_not_shared() -> None:
    one, other = Side("a", BUILD, "t"), Side("a", BUILD, "t")
    assert one == other
    assert (one.machine, one.schedule, one.figures, one.parts) == ({}, {}, {}, ())
    assert one.machine is not other.machine


def test_a_direction_is_the_sign_of_a_gain() -> None:
    assert [direction * 2.0 for direction in (LESS, NEITHER, MORE)] == [-2.0, 0.0, 2.0]
