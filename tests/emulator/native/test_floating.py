"""The generated C of floating operations, and flags that would change them.

Sums in the order of the text, side by side: which statements have the shape, and their results to the bit.
"""

import ctypes
import ctypes.util
import dataclasses
import platform

import numpy as np
import pytest

from tests.float_machine import SPECIAL, float_machine, float_program, float_state
from toolchain.analysis.order import issue_order
from toolchain.analysis.state import State, new_state
from toolchain.emulator import native, reference
from toolchain.emulator.native.floating import Ordered, floating, ordered_products
from toolchain.emulator.native.function import ROOM, Function, Pack, new_function, pack_names
from toolchain.emulator.native.source import engine_source
from toolchain.isa.c_source import CValue, Interval
from toolchain.isa.decode import decode
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.isa.semantics.traverse import expressions, nodes, statements
from toolchain.spec.errors import UserError
from toolchain.spec.expr import Const
from toolchain.spec.load import load_text
from toolchain.spec.model import Machine, ScalarType
from toolchain.spec.model.types import F32

VALUE = CValue("v", Interval(F32.low, F32.high), 32)
ZERO = Const(0)


def test_widths() -> None:
    assert floating(ir.ToFloat(ZERO, F32), [VALUE]).text == "tw_f32_from_i32(v)"
    assert floating(ir.ToFloat(ZERO, F32), [CValue("w", Interval(0, 1 << 40), 64)]).text == "tw_f32_from_i64(w)"
    assert floating(ir.ToInteger(ZERO, F32, "floor", ScalarType(True, 8)), [VALUE]) == CValue(
        "tw_into_i32(tw_round_floor(tw_f32_number(v)), -128, 127)", Interval(-128, 127), 32
    )
    assert floating(ir.Float("to_bits", F32, (ZERO,)), [VALUE]) == CValue("((int64_t)(uint32_t)v)", Interval(0, (1 << 32) - 1), 64)
    assert floating(ir.Float("lt", F32, (ZERO, ZERO)), [VALUE, VALUE]).range == Interval(0, 1)


@pytest.mark.skipif(not native.available(), reason="no C compiler")
@pytest.mark.parametrize("flag", ["-ffast-math", "-ffinite-math-only"])
def test_a_compiler_that_may_change_results_is_refused(flag: str) -> None:
    program = float_program(float_machine(), 0, 4)
    with pytest.raises(UserError, match="E0710"):
        native.run(program, float_state(program.machine, 0), issue_order(program), (flag,))


@pytest.mark.skipif(not native.available() or platform.machine() != "x86_64", reason="no C compiler, or other numbers of rounding modes")
def test_the_rounding_of_the_process_changes_nothing() -> None:
    library, upward = ctypes.CDLL(ctypes.util.find_library("m")), 0x800
    program = float_program(float_machine(), 3)
    one, other, order = float_state(program.machine, 3), float_state(program.machine, 3), issue_order(program)
    reference.run(program, one, order)
    native.run(program, other.copy(), order)
    library.fesetround(upward)
    native.run(program, other, order)
    left = library.fegetround()
    library.fesetround(0)
    assert left == upward
    assert all(np.array_equal(one.memories[name], other.memories[name]) for name in one.memories)


@pytest.mark.skipif(not native.available(), reason="no C compiler")
def test_fused_products_round_once() -> None:
    """(1 + 2**-23) * (1 - 2**-23) + c lies 2**-46 off a tie, which a double has lost."""
    machine, fused = float_machine(), 3 | 14 << 4 | 2 << 8 | 1 << 14  # ALU d=2 a=0 b=1
    program = decode(machine, [np.array([fused, 0], np.uint64).tobytes()])
    ties = 0
    for shift in range(-40, 40, 7):
        one, other = new_state(machine), new_state(machine)
        for state in (one, other):
            rows = state.memories["x"].view(np.float32).reshape(8, 8)
            rows[0], rows[1] = (1 + 2.0**-23) * 2.0**shift, 1 - 2.0**-23
            rows[2] = [sign * (2.0**24 + 2 * step) * 2.0**shift for sign in (1, -1) for step in range(4)]
        double = rows[0].astype(np.float64) * rows[1] + rows[2]
        reference.run(program, one, issue_order(program))
        native.run(program, other, issue_order(program))
        assert np.array_equal(one.memories["x"], other.memories["x"])
        ties += int((one.memories["x"].view(np.float32).reshape(8, 8)[2] != double.astype(np.float32)).sum())
    assert ties > 0, "rounding twice would pass too"


@pytest.mark.skipif(not native.available(), reason="no C compiler")
def test_contraction_stays_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CFLAGS", "-ffp-contract=fast")
    program = float_program(float_machine(), 3, 24)
    one, other, order = float_state(program.machine, 3), float_state(program.machine, 3), issue_order(program)
    reference.run(program, one, order)
    native.run(program, other, order)
    assert all(np.array_equal(one.memories[name], other.memories[name]) for name in one.memories)


TEXT = """\
target: {name: sums, summary: products added in order}
types:
  own_t: LOW[KEPT, 5]
  turned_t: LOW[5, KEPT]
  shared_t: LOW[5]
  sum_t: f32[KEPT]
memories:
  w: {kind: scratchpad, type: own_t, depth: 40}
  x: {kind: scratchpad, type: shared_t, depth: 8}
  y: {kind: scratchpad, type: sum_t, depth: 8}
views:
  w.turned: {type: turned_t}
units:
  work: {reads: [w, x, y], writes: [w, x, y]}
encoding:
  unit: 16
  formats:
    op: {bits: 16, fields: {opcode: {bits: 2, role: opcode}, d: {bits: 3}, a: {bits: 3}, b: {bits: 5}, n: {bits: 3, minus: 1}}}
instructions:
  SUM:
    format: op
    match: {opcode: 1}
    unit: work
    timing: one
    semantics: |
      for i in range(n):
          s[o]: f32 = 0
          for j in range(4):
              s[o] += sum_in_order(WIDE(x[(a + i) % 8][c]) * WIDE(w[b + j][o, c]))
              s[o] += sum_in_order(WIDE(w.turned[b + i][c, o]) * WIDE(x[(a + j) % 8][c]))
          y[(d + i) % 8][o] = s[o]
  WRITTEN:
    format: op
    match: {opcode: 2}
    unit: work
    timing: one
    in_place: true
    semantics: |
      for i in range(n):
          y[d][o] = sum_in_order(WIDE(x[a][c]) * WIDE(w[b][o, c]))
          w[b + i][o, c] = w[b][o, c] if c < n else x[a][c]
  END:
    format: op
    match: {opcode: 0}
    unit: work
    timing: one
    semantics: |
      pass
timing: {clock_khz: {value: 1000, source: none}, classes: {one: {cycles: 1, source: none}}}
program: {ends: END}
"""


def machine_of(low: str, kept: int) -> Machine:
    text = TEXT.replace("WIDE(w.turned[b + i][c, o])", "w.turned[b + i][c, o]").replace("WIDE(", "(") if low == "f32" else TEXT.replace("WIDE", "f32")
    return load_text(text.replace("LOW", low).replace("KEPT", str(kept)), "sums.yaml")


def function_of(machine: Machine, name: str) -> Function:
    return new_function(machine, machine_semantics(machine)[name])


def found_in(function: Function) -> list[Ordered | None]:
    parts = (e for stmt in statements(function.semantics.body) for whole in expressions(stmt) for e in nodes(whole))
    return [ordered_products(function, e) for e in parts if isinstance(e, ir.FloatReduce)]


def drawn_state(machine: Machine, seed: int) -> State:
    """Ordinary numbers, in half of the states special values and subnormals among them."""
    state, rng = new_state(machine), np.random.default_rng(seed)
    for name in ("w", "x"):
        shift = np.uint32(32 - machine.view[name].element.scalar.bits)
        words = state.memories[name].view(f"u{4 - shift // 8}")
        special = rng.choice(SPECIAL, words.shape) | rng.integers(0, 2, words.shape, np.uint32) << np.uint32(31)
        ordinary = rng.normal(0, 1, words.shape).astype(np.float32).view(np.uint32)
        words[:] = np.where(rng.random(words.shape) < seed % 2 * 0.03, special, ordinary) >> shift
    return state


def test_both_factors_may_be_packed() -> None:
    first, second = found_in(function_of(machine_of("bf16", 3), "SUM"))
    assert first
    assert second
    assert (first.kept, first.over, first.access.view.name) == (("o",), ("c",), "w")
    assert (second.kept, second.over, second.access.view.name) == (("o",), ("c",), "w.turned")


def test_an_element_that_the_instruction_writes_is_not_kept() -> None:
    assert found_in(function_of(machine_of("bf16", 3), "WRITTEN")) == [None]


def test_other_orders_are_left_alone() -> None:
    function = function_of(machine_of("bf16", 3), "SUM")
    parts = [e for stmt in statements(function.semantics.body) for whole in expressions(stmt) for e in nodes(whole)]
    one = next(e for e in parts if isinstance(e, ir.FloatReduce))
    assert ordered_products(function, one)
    assert ordered_products(function, dataclasses.replace(one, op="tree", width=1)) is None
    assert ordered_products(function, dataclasses.replace(one, value=ir.Float("add", one.type, one.value.values))) is None  # type: ignore[attr-defined]


def test_packs_stay_in_their_room() -> None:
    view = machine_of("bf16", 3).view["w"]
    for terms, sums in ((1, 1), (5, 3), (32, 32), (1000, 1000)):
        pack = Pack(0, view, terms, sums)
        assert pack.slots == 1 or pack.slots * terms * sums * 4 <= ROOM
        assert pack.bytes >= pack.slots * (8 + terms * sums * 4)
    assert pack_names([]) == []
    first, second = Pack(0, view, 32, 32), Pack(1, view, 5, 3)
    assert f"(tw_packs + {first.bytes})" in " ".join(pack_names([first, second]))


@pytest.mark.drawn(2)
@pytest.mark.skipif(not native.available(), reason="no C compiler")
@pytest.mark.parametrize(("low", "kept"), [("f16", 3), ("bf16", 16), ("f8e4m3", 19), ("f8e5m2", 33), ("f32", 50)])
def test_sums_equal_the_reference(low: str, kept: int) -> None:
    """In blocks of 32 and 16 and one by one, with and without special values."""
    machine = machine_of(low, kept)
    assert "tw_ordered(" in engine_source(machine).split("/* SUM */")[1]
    special = 0
    for seed in range(2):
        words = np.random.default_rng(seed).integers(0, 1 << 12, 3) << 2 | np.array([1, 2, 1])
        program = decode(machine, [np.array([*words.tolist(), 0], np.uint16).tobytes()])
        expected, order = drawn_state(machine, seed), issue_order(program)
        reference.run(program, expected, order)
        for flags in ((), ("-O0",)):
            state = drawn_state(machine, seed)
            native.run(program, state, order, flags)
            assert all(np.array_equal(expected.memories[name], state.memories[name]) for name in expected.memories), (seed, flags)
        special += int((~np.isfinite(expected.memories["y"].view(np.float32))).any())
    assert special, "no sum was special"
