"""The accuracy that a build states: a line, and warnings before it is trusted."""

import pytest

from toolchain.accuracy.closeness import Closeness, OutputCloseness
from toolchain.accuracy.measure import Measured
from toolchain.accuracy.stated import FEW, Stated, read_stated, stated_text

NOISY = Closeness({"y": OutputCloseness(2.0, 0, 0, 2.0, 0.4)}, "t", 1.0, {})
CLOSE = Closeness({"y": OutputCloseness(32.0, 0, 0, 31.2, 0.0)}, "t", 30.0, {})
TASK = Measured("embedding", 0.98, "cosine 0.9800 with the float network's, the worst 0.9500")


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (Stated(0), ""),
        (Stated(24, "test", 32, None, TASK, CLOSE), f"{TASK.text}; outputs 31.2 dB; on 24 test samples"),
        (Stated(8, "held-out", 40, (0.99, 0.98), None, CLOSE), "98.00 % right, in floating point 99.00 %; outputs 31.2 dB; on 8 samples held out"),
        (Stated(4, "calibration", 4, None, None, CLOSE), "outputs 31.2 dB; on 4 samples that calibrate it"),
    ],
)
def test_one_line(found: Stated, text: str) -> None:
    assert found.text() == text
    assert read_stated(stated_text(found)) == found


def test_few_samples_are_said_to_be_few() -> None:
    assert not list(Stated(24, "test", FEW, None, TASK, CLOSE).warnings())
    (warning,) = Stated(24, "test", FEW - 1, None, TASK, CLOSE).warnings()
    assert warning.startswith(f"{FEW - 1} samples calibrate it, which are few")


def test_noise_that_the_task_does_not_speak_for() -> None:
    (warning,) = Stated(24, "test", 32, None, None, NOISY).warnings()
    assert "cannot be trusted" in warning
    assert not list(Stated(24, "test", 32, None, TASK, NOISY).warnings())


def test_values_that_are_cut_off() -> None:
    (warning,) = Stated(24, "test", 32, None, TASK, CLOSE, "conv1", 0.12).warnings()
    assert warning.startswith("12.0 % of the values of conv1 are cut off")


def test_nothing_is_said_of_what_was_not_measured() -> None:
    assert not list(Stated(0, closeness=NOISY).warnings())
