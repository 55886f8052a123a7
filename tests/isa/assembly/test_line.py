"""One line: its values in the form's order, or every fault with the number of its token."""

import pytest

from tests.coded_machine import coded_machine
from toolchain.isa.assembly.form import forms
from toolchain.isa.assembly.line import Faults, LineReader

PLAIN = LineReader(forms(coded_machine())["SET"])
PAIRS = LineReader(forms(coded_machine(pairs=True))["SET"])


@pytest.mark.parametrize("text", ["SET wait=1 kernel=3 shift=-4", "SET shift=-4 kernel=3 wait=1 post=0"])
def test_assigned(text: str) -> None:
    faults: Faults = []
    assert (PLAIN.read(text.split(), faults), faults) == ([1, 0, 3, -4], [])


@pytest.mark.parametrize("text", ["SET 1 0 kernel 3 shift -4", "SET 1 shift -4 kernel 3", "SET wait 1 kernel=3 shift=-4"])
def test_pairs(text: str) -> None:
    faults: Faults = []
    assert (PAIRS.read(text.split(), faults), faults) == ([1, 0, 3, -4], [])


@pytest.mark.parametrize(
    ("reader", "text", "expected"),
    [
        (PLAIN, "SET kernel=99 shit=3 kernel=1", [(1, "E0304", 7), (2, "E0302", 0)]),
        (PLAIN, "SET kernel=1 kernel=1 shift=0", [(2, "E0306", 0)]),
        (PLAIN, "SET", [(0, "E0305", 0)]),
        (PAIRS, "SET 1 0 kernel 99 shift", [(4, "E0304", 0), (5, "E0307", 0)]),
        (PAIRS, "SET 1 0 kernl 9 shift 1 kernel 1 kernel 1", [(3, "E0302", 0), (9, "E0306", 0)]),
    ],
)
def test_faults(reader: LineReader, text: str, expected: list[tuple[int, str, int]]) -> None:
    faults: Faults = []
    reader.read(text.split(), faults)
    assert [(token, error.code, error.offset) for token, error in faults] == expected


def test_a_token_that_came_before_is_not_read_again_wrongly() -> None:
    faults: Faults = []
    for _ in range(2):
        PLAIN.read(["SET", "kernel=0", "shift=0"], faults)
    assert [(token, error.code) for token, error in faults] == [(1, "E0304")] * 2
