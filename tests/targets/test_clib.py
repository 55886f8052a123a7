"""clib: every variant of its convolution gives the integers of plain C99. Undefined behaviour traps."""

import ctypes
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

LIBRARY = Path(__file__).parents[2] / "targets" / "clib"
STAND_IN = Path(__file__).parent / "avx512"
POINTERS = ("x", "weight", "bias", "multipliers", "shifts", "y")
NUMBERS = (
    *("height", "width", "in_channels", "x_pitch", "out_height", "out_width", "out_channels", "y_pitch"),
    *("kh", "kw", "sh", "sw", "dh", "dw", "pad_top", "pad_left", "zero_x", "zero_y", "low", "high"),
)
PROCESSOR = Path("/proc/cpuinfo").read_text().split() if Path("/proc/cpuinfo").exists() else []
WHOLE = "avx512_vnni" in PROCESSOR and "avx512bw" in PROCESSOR
VARIANTS = {
    "avx2": ("-mavx2",),
    "vnni": ("-mavx512f", "-mavx512bw", "-mavx512vnni") if WHOLE else ("-D__AVX512BW__", "-D__AVX512VNNI__", f"-I{STAND_IN}"),
}

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on this machine")


class Arguments(ctypes.Structure):
    """clib.h's struct clib_conv2d_arguments."""

    _fields_ = [*((name, ctypes.c_void_p) for name in POINTERS), *((name, ctypes.c_int32) for name in NUMBERS)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("clib")


def library(folder: Path, name: str, flags: tuple[str, ...]) -> ctypes.CDLL:
    path = folder / f"{name}.so"
    if not path.exists():
        checks = ("-Wall", "-Wextra", "-Werror", "-fsanitize=undefined", "-fsanitize-undefined-trap-on-error")
        subprocess.run(["cc", "-std=c99", "-O1", *checks, *flags, "-fPIC", "-shared", str(LIBRARY / "clib.c"), "-o", str(path)], check=True)
    return ctypes.CDLL(str(path))


def convolve(found: ctypes.CDLL, arrays: Mapping[str, NDArray[Any]], numbers: Mapping[str, int]) -> NDArray[np.int8]:
    y = np.full((numbers["out_height"] * numbers["out_width"], numbers["y_pitch"]), 77, np.int8)
    given = {name: array.ctypes.data for name, array in {**arrays, "y": y}.items()}
    found.clib_conv2d(ctypes.byref(Arguments(**given, **numbers)))
    return y


def operation(draw: Random, channels: int, filters: int, extreme: bool) -> tuple[dict[str, NDArray[Any]], dict[str, int]]:
    """A convolution with corners: windows beyond the picture, pitches, odd numbers of filters, and, where `extreme`, nothing but limits."""
    kh, kw, sh, sw, dh, dw = (draw.randint(1, most) for most in (3, 3, 2, 2, 2, 2))
    height, width, pad_top, pad_left = draw.randint(1, 6), draw.randint(1, 6), draw.randint(0, 2), draw.randint(0, 2)
    x_pitch, values = channels + draw.choice([0, 0, 3]), np.random.default_rng(draw.randrange(1 << 30))
    limits = np.array([-128, 127], np.int8) if draw.random() < 0.5 else np.array([-128], np.int8)

    def bytes_of(size: int) -> NDArray[np.int8]:
        return values.choice(limits, size) if extreme else values.integers(-128, 128, size, np.int8)

    arrays: dict[str, NDArray[Any]] = {
        "x": bytes_of(height * width * x_pitch), "weight": bytes_of(filters * kh * kw * channels),
        "bias": values.integers(-(1 << 24), 1 << 24, filters, np.int32),
        "multipliers": values.integers(draw.choice([0, 1 << 30]), (1 << 31) - 1, filters, np.int32, endpoint=True),
        "shifts": values.integers(*draw.choice([(30, 48), (30, 48), (0, 63)]), filters, np.int32),
    }  # fmt: skip
    numbers = {
        "height": height, "width": width, "in_channels": channels, "x_pitch": x_pitch,
        "out_channels": filters, "y_pitch": filters + draw.choice([0, 2]),
        "out_height": draw.randint(1, 5), "out_width": draw.randint(1, 5), "kh": kh, "kw": kw, "sh": sh, "sw": sw, "dh": dh, "dw": dw,
        "pad_top": pad_top, "pad_left": pad_left, "zero_x": draw.choice([-128, 127, 0, draw.randint(-128, 127)]), "zero_y": draw.randint(-128, 127),
        "low": draw.choice([-128, 0]), "high": draw.choice([127, 90]),
    }  # fmt: skip
    return arrays, numbers


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_gives_the_integers_of_plain_c(folder: Path, variant: str) -> None:
    """Depths beside a vector's length, and above what is laid out at once (1152); filters above those whose sums are kept (256)."""
    if variant == "avx2" and "avx2" not in PROCESSOR:
        pytest.skip("this processor has no AVX2")
    plain, other, draw = library(folder, "plain", ("-DCLIB_PLAIN",)), library(folder, variant, VARIANTS[variant]), Random(1)
    sizes = [(draw.choice([1, 3, 15, 16, 17, 31, 64, 65, 130]), draw.randint(1, 9)) for _ in range(80)]
    sizes += [(400, 7), (1153, 2), (700, 3), (5, 259), (64, 300)]
    for channels, filters in sizes:
        arrays, numbers = operation(draw, channels, filters, draw.random() < 0.3)
        expected, found = (convolve(each, arrays, numbers) for each in (plain, other))
        assert np.array_equal(found, expected), numbers
