"""Made-up speech by seeds alone, and the front ends of the networks that hear it: nothing of it is recorded."""

from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

Array = np.typing.NDArray[Any]
RATE = 16000
VOWELS = ((730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240), (530, 1840, 2480), (570, 840, 2410), (440, 1020, 2240))
"""The three lowest formants in Hz (Peterson and Barney, 1952)."""
MEL_FRAMES, MEL_HOP, WINDOW, STEPS = 76, 160, 76, 16
COUNTS = MappingProxyType({"calibration": (11, 32), "test": (12, 32)})
"""By purpose the seed and the number of samples."""


def voice(length: int, random: np.random.Generator) -> Array:
    """Syllables of one speaker, vowels and hisses with pauses between them: [length] at 16 kHz, at most 0.5."""
    wave, at, pitch = np.zeros(length), 0, random.uniform(90, 240)
    while at < length:
        size = int(random.uniform(0.08, 0.3) * RATE)
        sound = random.normal(size=size) * 0.1 if random.random() < 0.2 else _vowel(size, pitch * random.uniform(0.85, 1.2), random)
        part = (sound * np.hanning(size))[: length - at]
        wave[at : at + len(part)] += part
        at += int(size * random.uniform(0.7, 1.4))
    return 0.5 * wave / np.abs(wave).max()


def _vowel(size: int, pitch: float, random: np.random.Generator) -> Array:
    """Harmonics as loud as the resonances of a mouth let them be, gliding from one vowel's to another's."""
    glide = np.linspace(0, 1, size)
    tone = pitch * (1 + 0.1 * glide * random.uniform(-1, 1))
    first, last = (np.array(VOWELS[number]) for number in random.integers(0, len(VOWELS), 2))
    formants = first[:, None] * (1 - glide) + last[:, None] * glide
    phase, wave = 2 * np.pi * np.cumsum(tone) / RATE, np.zeros(size)
    for harmonic in range(1, 30):
        loud = sum(1 / (1 + ((harmonic * tone - centre) / (60 + 40 * number)) ** 2) / (1 + number) for number, centre in enumerate(formants))
        wave += loud * np.sin(harmonic * phase) / harmonic**0.5
    return wave / np.abs(wave).max()


def noisy(length: int, random: np.random.Generator) -> Array:
    """Speech with noise, from none to as loud as it is; one of eight is noise alone."""
    loud = 10 ** random.uniform(-3, -0.6)
    return np.clip((random.random() > 0.125) * voice(length, random) + random.normal(size=length) * loud * 0.3, -1, 1)


def broken(length: int, random: np.random.Generator) -> Array:
    """Noisy speech of which up to 40 % of the packets of 20 ms are lost."""
    packets = np.repeat(random.random(length // 320 + 1) > random.uniform(0, 0.4), 320)[:length]
    return noisy(length, random) * packets


def spectra(wave: Array, size: int, hop: int) -> Array:
    """Powers [frames, size // 2 + 1] of frames below a Hann window."""
    frames = np.lib.stride_tricks.sliding_window_view(wave, size)[::hop]
    return np.abs(np.fft.rfft(frames * np.hanning(size + 1)[:-1])) ** 2


def log_mel(wave: Array, size: int, hop: int, bands: int) -> Array:
    """[frames, bands] decibels below the loudest, 80 at most, as (dB + 40) / 40."""
    power = spectra(wave, size, hop) @ _mel_bands(size, bands).T
    decibels = 10 * np.log10(np.maximum(power, 1e-10))
    return (np.maximum(decibels - decibels.max(), -80) + 40) / 40


def _mel_bands(size: int, bands: int) -> Array:
    """Triangles [bands, size // 2 + 1] of equal area on O'Shaughnessy's mel scale."""
    edges = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + RATE / 2 / 700), bands + 2) / 2595) - 1)
    places = np.linspace(0, RATE / 2, size // 2 + 1)
    low, middle, high = (edges[first : first + bands, None] for first in range(3))
    return np.clip(np.minimum((places - low) / (middle - low), (high - places) / (high - middle)), 0, None) * 2 / (high - low)


def _each(make: Callable[[np.random.Generator], Array]) -> dict[str, Array]:
    """[samples, 1, ...] by purpose."""
    return {
        purpose: np.stack([make(np.random.default_rng([seed, number])) for number in range(count)])[:, None].astype(np.float32)
        for purpose, (seed, count) in COUNTS.items()
    }


def _loud(frames: int, random: np.random.Generator) -> Array:
    """Speech of so many frames of mel bands, as whole numbers of 16 bits, which openWakeWord's networks hear."""
    return np.round(noisy((frames + 3) * MEL_HOP, random) * 32767)


def waves() -> dict[str, Array]:
    """openWakeWord's mel spectrogram: 0.8 seconds of noisy speech, [samples, 1, 12640]."""
    return _each(partial(_loud, MEL_FRAMES))


def _wake_session(name: str) -> Any:
    import onnxruntime

    spec = find_spec("openwakeword")
    if spec is None or spec.origin is None:
        raise ImportError("No module named 'openwakeword'")
    return onnxruntime.InferenceSession(Path(spec.origin).parent / "resources" / "models" / name, providers=["CPUExecutionProvider"])


def _wake_mels(session: Any, frames: int, random: np.random.Generator) -> Array:
    """[frames, 32], scaled as openWakeWord does."""
    (found,) = session.run(None, {"input": _loud(frames, random)[None].astype(np.float32)})
    return found.reshape(-1, 32)[:frames] / 10 + 2


def mels() -> dict[str, Array]:
    """openWakeWord's embedding: mel bands of noisy speech, [samples, 1, 76, 32, 1]."""
    session = _wake_session("melspectrogram.onnx")
    return _each(lambda random: _wake_mels(session, WINDOW, random)[..., None])


def embeddings(steps: int) -> dict[str, Array]:
    """openWakeWord's detectors: embeddings of noisy speech, eight frames from one to the next, [samples, 1, steps, 96]."""
    first, second = _wake_session("melspectrogram.onnx"), _wake_session("embedding_model.onnx")

    def make(random: np.random.Generator) -> Array:
        bands = _wake_mels(first, WINDOW + 8 * (steps - 1), random)
        windows = np.stack([bands[8 * step : 8 * step + WINDOW] for step in range(steps)])[..., None]
        (found,) = second.run(None, {"input_1": windows})
        return found.reshape(steps, 96)

    return _each(make)


def lost_packets() -> dict[str, Array]:
    """PLCMOS: logarithms of the spectra of 2 seconds of broken speech [samples, 1, 1, 125, 257], and a rater's embedding [samples, 1, 64]."""

    def make(random: np.random.Generator) -> Array:
        power = spectra(broken(512 + 124 * 256, random), 512, 256)
        return np.log(np.maximum(power, 1e-12))[None] / 20

    return _each(make) | {f"{name}_rater": array for name, array in _each(lambda random: random.normal(size=64)).items()}


def echoes() -> dict[str, Array]:
    """AECMOS: mel bands of the far end, the microphone and the cleaned signal [samples, 1, 3, 125, 160], and states of zero."""

    def make(random: np.random.Generator) -> Array:
        length, delay = 512 + 124 * 256, int(random.integers(200, 2000))
        far, near = voice(length, random), voice(length, random) * (random.random() > 0.3)
        echo = np.concatenate([np.zeros(delay), far[:-delay]]) * random.uniform(0.1, 0.8)
        noise = random.normal(size=length) * 10 ** random.uniform(-4, -2)
        return np.stack([log_mel(wave, 512, 256, 160) for wave in (far + noise / 10, near + echo + noise, near + echo * random.random() + noise)])

    return _each(make) | {f"{purpose}_state": np.zeros((count, 4, 1, 64), np.float32) for purpose, (_, count) in COUNTS.items()}


def ratings() -> dict[str, Array]:
    """DNSMOS by ITU-T P.808: 120 mel bands of 9 seconds of noisy speech, [samples, 1, 900, 120]."""
    return _each(lambda random: log_mel(noisy(320 + 899 * 160, random), 320, 160, 120))


SPEECH: Mapping[str, Callable[[], dict[str, Array]]] = MappingProxyType(
    {
        "speech_waves": waves,
        "speech_mels": mels,
        "speech_embeddings": partial(embeddings, STEPS),
        "speech_timers": partial(embeddings, 34),
        "speech_packets": lost_packets,
        "speech_echoes": echoes,
        "speech_ratings": ratings,
    }
)
"""By the name of the .npz file."""
