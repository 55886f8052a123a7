"""The engines equal each other to the bit on floating programs, special values and subnormals included, whatever the compiler's optimisation."""

from functools import cache

import numpy as np
import pytest

from tests.float_machine import float_machine, float_program, float_state
from toolchain.analysis.order import issue_order
from toolchain.analysis.state import State
from toolchain.emulator import native, numpy_engine, reference
from toolchain.isa.program import Ints, Program

KINDS = [("f32", "f16"), ("f32", "bf16"), ("f16", "f8e4m3"), ("bf16", "f16"), ("f8e4m3", "f8e5m2"), ("f8e5m2", "bf16")]
machine_of = cache(float_machine)
needs_c = pytest.mark.skipif(not native.available(), reason="no C compiler")


def differences(program: Program, seed: int, order: Ints, expected: State, engine: str) -> list[str]:
    state = float_state(program.machine, seed)
    (numpy_engine.run if engine == "numpy" else native.run)(program, state, order)
    return [name for name, values in expected.memories.items() if not np.array_equal(values, state.memories[name])]


@pytest.mark.drawn(12)
@pytest.mark.parametrize(("kind", "low"), KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_engines_agree(kind: str, low: str, seed: int) -> None:
    program = float_program(machine_of(kind, low), seed)
    order, expected = issue_order(program), float_state(program.machine, seed)
    reference.run(program, expected, order)
    assert differences(program, seed, order, expected, "numpy") == []
    if native.available():
        assert differences(program, seed, order, expected, "native") == []


@needs_c
@pytest.mark.parametrize("flags", ["-O0", "-O3"])
def test_optimisation_changes_nothing(flags: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CFLAGS", flags)
    for seed in range(100, 104):
        program = float_program(machine_of("f32", "f16"), seed)
        order, expected = issue_order(program), float_state(program.machine, seed)
        reference.run(program, expected, order)
        assert differences(program, seed, order, expected, "native") == [], seed
