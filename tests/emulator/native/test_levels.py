"""Address arithmetic is done in the outermost loop that it depends on, unless it might fault there.

Packed weights: every byte where the kernels expect it, zeros where lanes are padded.
"""

import ctypes

import numpy as np
import pytest

from tests.tiny_machine import tiny
from toolchain.emulator.native.function import new_function
from toolchain.emulator.native.levels import Factors, Nest, packing_functions
from toolchain.emulator.native.source import TEMPLATES
from toolchain.isa.c_source import HELPERS
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.loops import MOST_ITERATIONS
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.spec import expr as ex
from toolchain.spec.compile import load_library
from toolchain.spec.expr import Expr
from toolchain.spec.model import ScalarType

I8, I16 = ScalarType(True, 8), ScalarType(True, 16)
SHAPES = [(16, 16, I8), (16, 4, I8), (12, 12, I8), (40, 8, I8), (5, 3, I8), (16, 16, I16)]
VARIANTS = {"best": (), "no permutation": ("-U__AVX512VBMI__",), "intrinsics": ("-DTW_INTRINSICS",), "plain": ("-DTW_PLAIN",)}


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


def nest() -> Nest:
    machine = tiny("for i in range(n), j in range(n):\n    acc[i % 4][o] = j\n")
    semantics = machine_semantics(machine)["OP"]
    outer = semantics.body[0]
    assert isinstance(outer, ir.For)
    inner = outer.body[0]
    assert isinstance(inner, ir.For)
    return Nest(new_function(machine, semantics), (outer, inner))


ROW, COLUMN, A, B = ir.Var("i"), ir.Var("j"), ir.FieldRef("a"), ir.FieldRef("b")


def added(*parts: Expr) -> Expr:
    total = parts[0]
    for part in parts[1:]:
        total = ex.Binary("+", total, part)
    return total


def test_each_part_stands_at_its_depth() -> None:
    made = nest()
    text = made.writer().value(added(ex.Binary("*", A, B), ex.Binary("*", ROW, A), COLUMN)).text
    assert [len(lines) for lines in made.lines] == [1, 1, 0]
    assert "f_a * (int64_t)f_b" in made.lines[0][0]
    assert "v_i" in made.lines[1][0]
    assert "v_j" in text
    assert "v_i" not in text


def test_equal_parts_are_computed_once() -> None:
    made = nest()
    part = ex.Binary("*", A, B)
    made.writer().value(added(ex.Binary("*", part, COLUMN), part, COLUMN))
    assert [len(lines) for lines in made.lines] == [1, 0, 0]


def test_what_may_fault_stays_where_it_is_guarded() -> None:
    made = nest()
    quotient = ex.Binary("//", B, A)
    guarded = ex.Choose(ex.Compare("!=", ex.Binary("*", COLUMN, A), ex.Const(0)), quotient, COLUMN)
    assert "tw_floordiv" in made.writer().value(guarded).text
    assert not any("tw_floordiv" in line for lines in made.lines for line in lines)
    made.writer().value(ex.Binary("+", quotient, COLUMN))
    assert "tw_floordiv" in made.lines[0][-1]


def test_loops_around_a_body() -> None:
    made = nest()
    lines = made.text(["body;"])
    assert [line.count("for (") for line in lines] == [1, 1, 0, 0, 0]
    assert made.text(["body;"], start=1)[0].startswith("for (int64_t v_j")
