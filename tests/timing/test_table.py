"""Aligned text."""

from toolchain.timing.table import table


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert table(["name", "n"], [["a", "1000"], ["longer", "1"]], left=(0,)) == ["name       n", "a       1000", "longer     1"]


def test_no_rows_leave_the_head() -> None:
    assert table(["a", "b"], []) == ["a  b"]


def test_lines_do_not_end_in_blanks() -> None:
    assert table(["a", "cause"], [["1", ""]], left=(1,)) == ["a  cause", "1"]
