"""The toy machine: a sparse filter over a delay line, its flag and its counters of all earlier work."""

from pathlib import Path

import numpy as np
import pytest

from tests.target_runs import Array, execute, half_even, random_int8, read
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine

RIPPLE = str(Path(__file__).resolve().parents[1] / "data" / "machines" / "ripple.yaml")
TAPS = [(0, 300), (7, -512), (2, 511), (7, 100), (31, -1)]
SAMPLES, RESULT = 64, 4096
"""Samples of two bytes in memory."""


def words(taps: list[tuple[int, int]]) -> np.ndarray:
    return np.array([delay | (weight & 0x3FF) << 6 for delay, weight in taps], "<u2")


def filtered(line: Array, first: int, count: int, shift: int) -> Array:
    """line: [n, 4]; output i is the sum over taps of weight * line[first + i - delay]."""
    rows = np.array([sum(weight * line[(first + i - delay) % 64] for delay, weight in TAPS) for i in range(count)])
    return np.clip(half_even(rows, shift), -(1 << 15), (1 << 15) - 1)


@pytest.mark.parametrize("shift", [0, 9, 15])
def test_filters_follow_a_line_that_wraps(shift: int) -> None:
    """64 samples fill the line; the window crosses its end, and old samples wait there."""
    x = random_int8(1, 64, 4) * 250
    text = f"""
        TAPS count=5 place=2 address=0
        FEED count=64 place=10 address={SAMPLES} post=1
        FIR wait=1 place=50 first=2 taps_used=5 count=40 target=3 shift={shift}
        DRAIN wait=1 count=40 place=3 address={RESULT}
        HALT
    """
    state = execute(load_machine(RIPPLE), text, {"mem": {0: words(TAPS), SAMPLES * 2: x.astype("<i2")}})
    line = np.roll(x, 10, 0)
    np.testing.assert_array_equal(read(state, "mem", RESULT * 2, (40, 4), np.int16), filtered(line, 50, 40, shift))


@pytest.mark.parametrize("seed", [None, 3, 4])
def test_two_blocks_in_flight(seed: int | None) -> None:
    """The second FEED waits for all earlier filters, the second FIR for its flag and for all earlier drains."""
    x = random_int8(2, 128, 4) * 99
    text = "TAPS count=5 place=2 address=0\n"
    for block in range(2):
        text += f"""
            FEED wait={block} count=64 place=0 address={SAMPLES + 256 * block} post=1
            FIR wait=1 fence={block} place=31 first=2 taps_used=5 count=33 target=0 shift=4
            DRAIN wait=1 count=33 place=0 address={RESULT + 132 * block}
        """
    state = execute(load_machine(RIPPLE), text + "HALT", {"mem": {0: words(TAPS), SAMPLES * 2: x.astype("<i2")}}, seed=seed)
    expected = np.concatenate([filtered(x[64 * block : 64 * block + 64], 31, 33, 4) for block in range(2)])
    np.testing.assert_array_equal(read(state, "mem", RESULT * 2, (66, 4), np.int16), expected)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("FIR wait=1", "FIR"), "E0601"),
        (("DRAIN wait=1", "DRAIN"), "E0601"),
        (("post=1", ""), "E0501"),
        (("count=33 place=0", "count=34 place=0"), "E0602"),
        (("count=33 place=0", "count=33 place=20"), "E0603"),
    ],
)
def test_mistakes_are_found(change: tuple[str, str], code: str) -> None:
    text = f"TAPS count=5 place=2 address=0\nFEED count=64 place=0 address={SAMPLES} post=1\n"
    text += f"FIR wait=1 place=31 first=2 taps_used=5 count=33 target=0 shift=4\nDRAIN wait=1 count=33 place=0 address={RESULT}\nHALT\n"
    images = {"mem": {0: words(TAPS)}}
    execute(load_machine(RIPPLE), text, images)
    with pytest.raises(UserError) as error:
        execute(load_machine(RIPPLE), text.replace(*change), images)
    assert error.value.diagnostics[0].code == code
