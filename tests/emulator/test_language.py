"""Every feature of the semantics language, on every engine."""

import random

import numpy as np
import pytest

from tests.tiny_machine import streams, tiny, word
from tests.tiny_programs import HALVES, TEXTS
from toolchain.analysis.order import issue_order
from toolchain.analysis.state import State, new_state
from toolchain.emulator import Engine, native, numpy_engine, reference
from toolchain.isa.decode import decode
from toolchain.isa.program import Program
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.spec.errors import UserError

ENGINES = [numpy_engine.run, *([native.run] if native.available() else [])]


def random_program(text: str, seed: int) -> tuple[Program, State]:
    """Two latched registers, then OPs whose fields reach outside memories now and then; random memory contents."""
    draw, bits = random.Random(seed), np.random.default_rng(seed)
    machine = tiny(text, HALVES)
    assert machine_semantics(machine)
    words = [word(1, b=i, a=draw.randrange(-128, 128), n=draw.randrange(1, 17), m=draw.randrange(-2048, 2048)) for i in range(2)]
    most = 4 if seed % 2 else 60
    words += [word(0, draw.randrange(-most, most), draw.randrange(most), draw.randrange(1, 17), draw.randrange(-2048, 2048)) for _ in range(4)]
    state = new_state(machine)
    for memory in state.memories.values():
        memory[:] = bits.integers(0, 256, memory.shape, np.uint8)
    state.host["arg"][:] = bits.integers(-50, 50, state.host["arg"].shape)
    return decode(machine, streams(words, words)), state


def outcome(engine: Engine, program: Program, state: State) -> dict[str, object]:
    """The memories afterwards, or the code of the error."""
    after = state.copy()
    try:
        engine(program, after, issue_order(program))
    except UserError as error:
        return {"error": error.diagnostics[0].code}
    return {name: memory.tobytes() for name, memory in after.memories.items()}


@pytest.mark.drawn(8)
@pytest.mark.parametrize("name", [*TEXTS])
def test_engines_agree(name: str) -> None:
    for seed in range(4):
        program, state = random_program(TEXTS[name], seed)
        expected = outcome(reference.run, program, state)
        for engine in ENGINES:
            assert outcome(engine, program, state) == expected
