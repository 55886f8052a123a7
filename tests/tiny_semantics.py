"""Semantics of the tiny machine's OP: resolved, run, and with bounds proved."""

import numpy as np
import pytest

from tests.tiny_machine import DOUBLE, streams, tiny, word
from toolchain.analysis.state import new_state
from toolchain.emulator.reference.engine import run
from toolchain.isa.decode import decode
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.isa.semantics.ranges import Ranges, analyse
from toolchain.spec.errors import UserError

SWAP = DOUBLE + "\ndef swap(x, y):\n    return y, x\n\ndef split(x):\n    half = double(x) // 4\n    return half, x - half\n"
"""Functions that semantics here may call."""


FILL = """
def fill(at, count, value):
    last = at + count
    for q in range(at, last):
        one[q % 4] = value

def fill_both(n, b):
    fill(n, 2, b)
    if n == 0:
        last = 5
        fill(2, 2, last)
"""
"""Procedures that semantics here may call."""


def read(semantics: str) -> ir.Semantics:
    """OP's semantics, resolved."""
    return machine_semantics(tiny(semantics, SWAP + FILL))["OP"]


def result(semantics: str, **fields: int) -> int:
    """Lane 0 of acc[0] after one OP with these fields."""
    machine = tiny(semantics, SWAP)
    program, state = decode(machine, streams([word(0, **fields)])), new_state(machine)
    run(program, state, np.array([0]))
    return int.from_bytes(state.memories["acc"][0, :4].tobytes(), "little", signed=True)


def ranges(semantics: str) -> Ranges:
    """The bounds of OP's names and temporaries."""
    machine = tiny(semantics)
    return analyse(machine, machine_semantics(machine)["OP"])


def codes(semantics: str) -> list[str]:
    """The codes of the errors that the analysis finds."""
    with pytest.raises(UserError) as caught:
        ranges(semantics)
    return [d.code for d in caught.value.diagnostics]
