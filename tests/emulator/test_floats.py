"""The engines equal each other to the bit on floating programs, special values and subnormals included, whatever the compiler's optimisation."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from tests.float_machine import float_machine, float_program, float_state
from toolchain.analysis.order import issue_order
from toolchain.analysis.state import State
from toolchain.emulator import native, numpy_engine, reference
from toolchain.isa.program import Ints, Program

machine_of = cache(float_machine)
ENGINES: dict[str, Callable[[Program, State, Ints], None]] = {"numpy": numpy_engine.run}
if native.available():
    ENGINES["native"] = native.run
    ENGINES["native -O0"] = lambda program, state, order: native.run(program, state, order, ("-O0",))


KINDS = [("f32", "f16"), ("f32", "bf16"), ("f16", "f8e4m3"), ("bf16", "f32"), ("f8e4m3", "f8e5m2"), ("f8e5m2", "f32")]


@pytest.mark.parametrize(("kind", "low"), KINDS)
@pytest.mark.parametrize("seed", range(12))
def test_engines_agree(kind: str, low: str, seed: int) -> None:
    machine = machine_of(kind, low)
    program = float_program(machine, seed, 24)
    order, expected = issue_order(program), float_state(machine, seed)
    reference.run(program, expected, order)
    for name, engine in ENGINES.items():
        state = float_state(machine, seed)
        engine(program, state, order)
        for memory, values in expected.memories.items():
            assert np.array_equal(values, state.memories[memory]), (seed, name, memory)
