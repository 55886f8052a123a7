"""A signal is heard while the C engine runs, between instructions."""

import signal
from types import FrameType

import numpy as np
import pytest

from tests.tiny_machine import streams, tiny, word
from toolchain.analysis.state import new_state
from toolchain.emulator import native
from toolchain.emulator.native.engine import prepare
from toolchain.isa.decode import decode

LONG = "for i in range(m * m), j in range(64):\n    acc[i % 4][o] += j\none[0] = a\n"


class InterruptedRunError(Exception):
    """What Ctrl-C would raise."""


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raises out of whatever runs."""
    del number, frame
    raise InterruptedRunError


@pytest.mark.skipif(not native.available() or not hasattr(signal, "setitimer"), reason="no C compiler or no timers")
def test_a_signal_ends_the_run_before_the_last_instruction() -> None:
    words = [word(0, m=600) for _ in range(100)]
    program = decode(tiny(LONG), streams([*words, word(0, a=77)]))
    prepare(program.machine)
    state, before = new_state(program.machine), signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(InterruptedRunError):
            native.run(program, state, np.arange(len(program)))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert state.memories["one"][0, 0] != 77
