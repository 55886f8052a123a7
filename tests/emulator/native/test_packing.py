"""Packed weights: every byte where the kernels expect it, zeros where lanes are padded."""

import ctypes

import numpy as np
import pytest

from toolchain.analysis.compile import load_library
from toolchain.emulator.native.packing import Factors, packing_functions
from toolchain.emulator.native.source import TEMPLATES
from toolchain.isa.c_source.expressions import HELPERS
from toolchain.isa.semantics.work import MOST_ITERATIONS
from toolchain.spec.model import ScalarType

I8, I16 = ScalarType(True, 8), ScalarType(True, 16)
SHAPES = [(16, 16, I8), (16, 4, I8), (12, 12, I8), (40, 8, I8), (5, 3, I8), (16, 16, I16)]
VARIANTS = {"best": (), "no permutation": ("-U__AVX512VBMI__",), "plain": ("-DTW_PLAIN",)}


@pytest.mark.parametrize("flags", VARIANTS.values(), ids=VARIANTS.keys())
@pytest.mark.parametrize(("sums", "depth", "kind"), SHAPES, ids=lambda x: str(x))
def test_packing(sums: int, depth: int, kind: ScalarType, flags: tuple[str, ...]) -> None:
    rng, size = np.random.default_rng(1), kind.bits // 8
    places = rng.permutation(sums * depth)
    f = Factors(3, sums, depth, tuple(int(p) * size for p in places), sums * depth * size, kind, kind)
    headers = [(TEMPLATES / name).read_text() for name in ("runtime.h", "kernel.h")]
    limit = f"static const double TW_MOST_ITERATIONS = {MOST_ITERATIONS}.0;"
    extra = ["void pack(int8_t *to, int64_t step, const uint8_t *from) { pack_3(to, step, from); }", "int bytes(void) { return TW_VNNI; }"]
    text = "\n".join(["#include <stdint.h>", "#include <stdlib.h>", "#include <string.h>", limit, HELPERS, *headers, *packing_functions(f), *extra])
    library = load_library("packing", text, flags)
    if library is None:
        pytest.skip("no C compiler")
    stored = rng.integers(-128, 128, sums * depth).astype(f"i{size}")
    packed = np.full((f.blocks, f.packed // size), 99, stored.dtype)
    library.pack(ctypes.c_void_p(packed.ctypes.data), ctypes.c_int64(f.packed), ctypes.c_void_p(stored.ctypes.data))
    whole = np.zeros((f.blocks * 16, depth), stored.dtype)
    whole[:sums] = stored[places].reshape(sums, depth)
    blocks = whole.reshape(f.blocks, 16, depth)
    quads = f.bytes_fit and library.bytes()
    expected = blocks.reshape(f.blocks, 16, depth // 4, 4).transpose(0, 2, 1, 3) if quads else blocks.transpose(0, 2, 1)
    assert np.array_equal(packed, expected.reshape(f.blocks, -1))
