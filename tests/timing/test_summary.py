"""The summary as text and as data.

Aligned text.
"""

import json
from collections.abc import Callable

from tests.target_runs import timed
from tests.timing.test_trace import small
from tests.token_machine import program, token_machine
from toolchain.timing.summary import summary_data, summary_text, table


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert table(["name", "n"], [["a", "1000"], ["longer", "1"]], left=(0,)) == ["name       n", "a       1000", "longer     1"]


def test_no_rows_leave_the_head() -> None:
    assert table(["a", "b"], []) == ["a  b"]


def test_lines_do_not_end_in_blanks() -> None:
    assert table(["a", "cause"], [["1", ""]], left=(1,)) == ["a  cause", "1"]


def test_small(golden: Callable[[str, str], None]) -> None:
    golden("timing/small.txt", summary_text(small()))
    golden("timing/small.json", json.dumps(summary_data(small()), indent=2) + "\n")


def test_a_program_that_takes_no_time() -> None:
    text = summary_text(timed(program(token_machine(), [{"unit": 0, "work": 0}])))
    assert "1 instructions, 0 cycles, 0.000 ms at 1 MHz" in text
