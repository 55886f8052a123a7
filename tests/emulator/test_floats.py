"""The engines equal each other to the bit on floating programs, special values and subnormals included, whatever the compiler's optimisation."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.float_machine import float_machine, float_state
from tests.random_programs import random_program
from toolchain.analysis.order import issue_order
from toolchain.analysis.state import State
from toolchain.emulator import native, numpy_engine, reference
from toolchain.isa.program import Ints, Program

ENGINES: dict[str, Callable[[Program, State, Ints], None]] = {"numpy": numpy_engine.run}
if native.available():
    ENGINES["native"] = native.run
    ENGINES["native -O0"] = lambda program, state, order: native.run(program, state, order, ("-O0",))


@pytest.mark.parametrize("seed", range(60))
def test_engines_agree(seed: int) -> None:
    machine = float_machine()
    program = random_program(machine, seed, 24)
    order, expected = issue_order(program), float_state(machine, seed)
    reference.run(program, expected, order)
    for name, engine in ENGINES.items():
        state = float_state(machine, seed)
        engine(program, state, order)
        for memory, values in expected.memories.items():
            assert np.array_equal(values, state.memories[memory]), (seed, name, memory)
