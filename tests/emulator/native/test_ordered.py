"""Sums in the order of the text, side by side: which statements have the shape, and their results to the bit."""

import dataclasses

import numpy as np
import pytest

from tests.float_machine import SPECIAL
from toolchain.analysis.order import issue_order
from toolchain.analysis.state import State, new_state
from toolchain.emulator import native, reference
from toolchain.emulator.native.function import Function, new_function
from toolchain.emulator.native.ordered import Ordered, ordered_products
from toolchain.emulator.native.packs import ROOM, Pack, pack_names
from toolchain.emulator.native.source import engine_source
from toolchain.isa.decode import decode
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.isa.semantics.traverse import expressions, nodes, statements
from toolchain.spec.load import load_text
from toolchain.spec.model import Machine

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
