"""An instruction that was met twice before does its steps, without loops; on what the memories hold now."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.random_programs import random_state
from tests.tiny_machine import streams, tiny, word
from toolchain.analysis.order import issue_order
from toolchain.analysis.state import State
from toolchain.emulator import numpy_engine, reference
from toolchain.emulator.numpy_engine.frame import MOST_STEPS
from toolchain.emulator.numpy_engine.loops import Loop
from toolchain.isa.decode import decode
from toolchain.isa.program import Program

PRODUCTS = "for i in range(n), j in range(3):\n    acc[(i + b) % 4][o] += dot(feat[1, j][c], feat[0, a + i + j][c])\n"


def program_of(semantics: str) -> Program:
    machine = tiny(semantics)
    words = [word(0, a=1, b=2, n=3, m=5), word(0, a=2, b=1, n=4, m=1), word(0, a=1, b=2, n=3, m=5)]
    return decode(machine, streams(words, words[:1]))


def both(program: Program, seed: int, controls: State | None = None) -> tuple[State, State]:
    """What the reference and the numpy engine leave."""
    state = random_state(program.machine, seed)
    for name in ("ctl", "num") if controls else ():
        state.memories[name][:] = (controls or state).memories[name]
    expected, found = state.copy(), state.copy()
    reference.run(program, expected, issue_order(program))
    numpy_engine.run(program, found, issue_order(program))
    return expected, found


def refused(*_: object) -> None:
    raise AssertionError("a loop is walked again")


def test_the_third_time_no_loop_is_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    program = program_of(PRODUCTS)
    for _ in range(2):
        both(program, 1)
    monkeypatch.setattr(Loop, "__call__", refused)
    expected, found = both(program, 2)
    assert np.array_equal(found.memories["acc"], expected.memories["acc"])
    assert found.memories["acc"].any()


def test_what_has_other_fields_is_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    program = program_of(PRODUCTS)
    for _ in range(2):
        both(program, 1)
    monkeypatch.setattr(Loop, "__call__", refused)
    with pytest.raises(AssertionError, match="walked again"):
        both(decode(program.machine, streams([word(0, a=1, b=3, n=3, m=5)])), 1)


def test_other_control_memories_are_walked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    program = program_of("for i in range(n):\n    acc[ctl[i % 4].lo % 4][o] += m\n")
    for _ in range(2):
        first, _ = both(program, 1)
    monkeypatch.setattr(Loop, "__call__", refused)
    expected, found = both(program, 2, first)
    assert np.array_equal(found.memories["acc"], expected.memories["acc"])
    with pytest.raises(AssertionError, match="walked again"):
        both(program, 2)


def test_what_changes_its_own_addresses_is_never_done_again_blindly() -> None:
    machine = tiny("ctl[b % 4] = dram.rec[a]\nfor i in range(n):\n    acc[ctl[i % 4].lo % 4][o] += m\n")
    program = decode(machine, streams([word(0, a=1, b=1, n=4, m=3)]))
    before = random_state(machine, 0)
    for seed in range(4):
        expected, found = both(program, seed, before)
        assert np.array_equal(found.memories["acc"], expected.memories["acc"])


def test_more_steps_than_are_kept() -> None:
    machine = tiny("t[o]: wrap(i32) = m\nfor i in range(n), j in range(b):\n    t[o] = t[o] * 3 - feat[0, i + j][o]\nacc[0][o] = t[o]\n")
    program = decode(machine, streams([word(0, b=40, n=16, m=3)] * 2))
    assert MOST_STEPS < 40 * 16
    for seed in range(3):
        expected, found = both(program, seed)
        assert np.array_equal(found.memories["acc"], expected.memories["acc"])


def test_a_state_is_not_kept_by_what_is_remembered() -> None:
    program = program_of(PRODUCTS)
    state = random_state(program.machine, 1)
    for _ in range(3):
        numpy_engine.run(program, state, issue_order(program))
    gone = weakref.ref(state)
    memory = weakref.ref(state.memories["acc"])
    del state
    gc.collect()
    assert gone() is None
    assert memory() is None


def test_threads_do_not_take_each_other_s_steps() -> None:
    program = program_of(PRODUCTS)
    states = [random_state(program.machine, seed) for seed in range(4)]
    wanted = [both(program, seed)[0].memories["acc"] for seed in range(4)]

    def differences(number: int) -> int:
        found = 0
        for _ in range(40):
            state = states[number].copy()
            numpy_engine.run(program, state, issue_order(program))
            found += not np.array_equal(state.memories["acc"], wanted[number])
        return found

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(differences, range(4))) == [0, 0, 0, 0]
