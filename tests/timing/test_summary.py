"""The summary as text and as data."""

import json
from collections.abc import Callable

from tests.target_runs import timed
from tests.timing.test_trace import small
from tests.token_machine import program, token_machine
from toolchain.timing.summary import summary_data, summary_text


def test_small(golden: Callable[[str, str], None]) -> None:
    golden("timing/small.txt", summary_text(small()))
    golden("timing/small.json", json.dumps(summary_data(small()), indent=2) + "\n")


def test_a_program_that_takes_no_time() -> None:
    text = summary_text(timed(program(token_machine(), [{"unit": 0, "work": 0}])))
    assert "1 instructions, 0 cycles, 0.000 ms at 1 MHz" in text
