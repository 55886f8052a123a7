"""Made-up sequences with known answers, by seeds alone: they train, calibrate and test the small networks of this folder that torch exports."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

Array = np.typing.NDArray[Any]
Batch = tuple[Array, Array]
"""What a network reads [samples, ...], and the answers."""
LENGTH, RATE = 512, 128
SOUND, SOUND_RATE = 2048, 8000
TOKENS, WORDS, TAGS = 24, 50, 4


def spindles(count: int, random: np.random.Generator) -> Batch:
    """Two channels of EEG [2, 512] at 128 Hz: drifts and noise, with up to three bursts of 11 to 15 Hz; where they are, [1, 512]."""
    time, read, told = np.arange(LENGTH) / RATE, np.empty((count, 2, LENGTH)), np.zeros((count, 1, LENGTH))
    for x, y in zip(read, told, strict=True):
        x[:] = np.cumsum(random.normal(size=(2, LENGTH)), 1) * 0.1
        x -= x.mean(1, keepdims=True)
        x += random.normal(size=(2, LENGTH)) * 0.3
        for _ in range(random.integers(0, 4)):
            first, size = random.integers(0, LENGTH - 80), random.integers(40, 80)
            wave = np.sin(2 * np.pi * random.uniform(11, 15) * time[:size]) * np.hanning(size)
            x[:, first : first + size] += wave * random.uniform(0.8, 1.6)
            y[0, first : first + size] = 1
    return read.astype(np.float32), told.astype(np.float32)


def sounds(count: int, random: np.random.Generator) -> Batch:
    """A quarter of a second [1, 2048] at 8 kHz of one of six kinds: sine, square, sweep, saw, noise, pulses."""
    time, read, kinds = np.arange(SOUND) / SOUND_RATE, np.empty((count, 1, SOUND)), random.integers(0, 6, count)
    for x, kind in zip(read, kinds, strict=True):
        tone = random.uniform(150, 1200)
        sine = np.sin(2 * np.pi * tone * time)
        sweep, pulses = np.sin(2 * np.pi * (tone * time + 1600 * time**2)), sine * (np.sin(30 * np.pi * time) > 0)
        wave = (sine, np.sign(sine), sweep, 2 * (tone * time % 1) - 1, random.normal(size=SOUND), pulses)[kind]
        x[:] = wave * random.uniform(0.3, 1) + random.normal(size=SOUND) * 0.1
    return read.astype(np.float32), kinds


def sentences(count: int, random: np.random.Generator) -> Batch:
    """Sentences of 24 of fifty words; the tag of a word depends on the word and on its two neighbours."""
    ids = random.integers(0, WORDS, (count, TOKENS))
    before, after = np.roll(ids, 1, 1) % 2, np.roll(ids, -1, 1) % 3
    return ids, (ids % TAGS + before + after) % TAGS


MADE: Mapping[str, Callable[[int, np.random.Generator], Batch]] = MappingProxyType(
    {"spindles": spindles, "sound_kinds": sounds, "tagged_words": sentences}
)
"""By the name of the file of samples."""


def held_out(name: str) -> dict[str, Array]:
    """Samples [count, 1, ...] that calibrate and that test; a network was trained on others."""
    return {use: MADE[name](count, np.random.default_rng(seed))[0][:, None] for use, seed, count in (("calibration", 7, 32), ("test", 8, 64))}
