"""Where instructions start: against a walk that looks at one instruction after another."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.random_fields import MACHINES, random_program
from toolchain.isa.binary.packing import pattern
from toolchain.isa.binary.scan import scan
from toolchain.spec.model import Machine


def walked(machine: Machine, data: bytes) -> list[tuple[int, int]]:
    """(kind, offset) of every instruction, by the definition."""
    found: list[tuple[int, int]] = []
    at = 0
    while data and (not found or machine.instructions[found[-1][0]].name != machine.program.ends):
        bits = int.from_bytes(data[at : at + machine.encoding.longest_bytes], "little")
        fits = [all(bits >> 8 * w & mask == value for w, (mask, value) in pattern(i, 8).items()) for i in machine.instructions]
        found.append((fits.index(True), at))
        at += machine.instructions[found[-1][0]].bytes
    return found


@pytest.mark.parametrize("name", MACHINES)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_equals_a_walk(name: str, seed: int) -> None:
    machine = MACHINES[name]
    for number, data in enumerate(random_program(machine, seed, 30).streams):
        if data or machine.streams == 1:
            found = scan(machine, data, number)
            assert list(zip(found.kind.tolist(), found.offset.tolist(), strict=True)) == walked(machine, data)
