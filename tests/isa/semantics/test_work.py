"""Iterations are counted before they run, by every engine alike."""

import numpy as np
import pytest

from tests.tiny_machine import streams, tiny, word
from toolchain.analysis.state import new_state
from toolchain.emulator import native, numpy_engine, reference
from toolchain.emulator.engines import Engine
from toolchain.isa.binary.decode import decode
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.isa.semantics.work import chains
from toolchain.spec.errors import UserError

ENGINES = [reference.run, numpy_engine.run, *([native.run] if native.available() else [])]
ENDLESS = {
    "one loop": "for i in range(m * m * m):\n    one[0] = i & 1",
    "nested": "for i in range(m), j in range(m), k in range(m):\n    one[0] = k & 1",
    "nested with a name between": "for i in range(m):\n    x = i + 1\n    for j in range(m), k in range(m):\n        one[0] = x & 1",
    "a product": "for i in range(m), j in range(m), k in range(m):\n    acc[k % 4][o] += dot(feat[0, i][c], par[j % 4][r, c])",
    "nothing inside": "for i in range(m * m * m):\n    for j in range(0):\n        one[0] = 1",
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", [*ENDLESS])
def test_loops_that_would_run_for_ever_are_refused(name: str, engine: Engine) -> None:
    text = ENDLESS[name].replace("par[j % 4][r, c]", "par[j % 4][0, c]")
    program = decode(tiny(text), streams([word(0, m=2047)]))
    with pytest.raises(UserError, match=r"^#0 OP at 0x0.* E0706 the loops of this instruction run more than 4294967296 times"):
        engine(program, new_state(program.machine), np.arange(len(program)))


@pytest.mark.parametrize("engine", ENGINES)
def test_loops_that_run_not_at_all_are_fine(engine: Engine) -> None:
    text = "for i in range(0, -m):\n    for j in range(m * m), k in range(m * m):\n        one[0] = 1"
    program = decode(tiny(text), streams([word(0, m=2047)]))
    engine(program, new_state(program.machine), np.arange(len(program)))


def test_a_chain_ends_where_bounds_depend_on_it() -> None:
    text = "for i in range(n), j in range(m):\n    for k in range(i, n):\n        x = k * 2\n"
    text += "        for h in range(x), g in range(n):\n            one[0] = 1"
    found = chains(machine_semantics(tiny(text))["OP"].body)
    assert [[loop.var for loop in chain] for chain in found.values()] == [["i", "j"], ["k"], ["h", "g"]]


def test_bounds_that_may_fail_are_not_computed_early() -> None:
    text = "for i in range(n):\n    for j in range(cfg[b].m):\n        one[0] = 1"
    found = chains(machine_semantics(tiny(text))["OP"].body)
    assert all(len(chain) == 1 and isinstance(chain[0], ir.For) for chain in found.values())
