"""What checks say of a program that they do not refuse."""

import pytest

from toolchain.analysis.hazards.text import soundness


@pytest.mark.parametrize(
    ("tolerated", "text"),
    [
        ({}, "no deadlock, no race, every address in range"),
        ({"E0601": 1}, "no deadlock, every address in range, 1 race that the machine's file calls a warning"),
        ({"E0601": 318}, "no deadlock, every address in range, 318 races that the machine's file calls warnings"),
        ({"E0602": 1}, "no deadlock, no race, every address in range, 1 read of what nothing has written that the machine's file calls a warning"),
        (
            {"E0602": 2, "E0601": 1},
            "no deadlock, every address in range, 1 race and 2 reads of what nothing has written that the machine's file calls warnings",
        ),
    ],
)
def test_no_race_is_said_where_there_is_none(tolerated: dict[str, int], text: str) -> None:
    assert soundness(tolerated) == text
