"""A machine of the tests for floating formats: vectors of eight, an instruction for each kind of operation, fields that hold the bits of a number."""

import numpy as np

from tests.random_programs import random_state
from toolchain.analysis.state import State
from toolchain.spec.load import load_text
from toolchain.spec.model import Machine

TEXT = """\
target: {name: floats, summary: a vector unit that computes in float32}
types:
  vec_t: f32[8]
  sum_t: i32[8]
  row_t: i8[8]
memories:
  dram: {kind: dram, type: u8, depth: 1024}
  x: {kind: scratchpad, type: vec_t, depth: 8}
  s: {kind: scratchpad, type: sum_t, depth: 8}
  q: {kind: scratchpad, type: row_t, depth: 8}
views:
  dram.vec: {type: vec_t, unit: 32}
units:
  load: {reads: [dram], writes: [x]}
  work: {reads: [x, s, q], writes: [x, s, q]}
  store: {reads: [x], writes: [dram]}
encoding:
  unit: 64
  formats:
    op:
      bits: 64
      fields:
        opcode: {bits: 4, role: opcode}
        what: {bits: 4}
        d: {bits: 3}
        a: {bits: 3}
        b: {bits: 3}
        n: {bits: 3, minus: 1}
        row: {bits: 5}
        scale: {bits: 32, radix: 16, doc: the bits of a float32}
        spare: {bits: 7, default: 0, role: reserved}
functions: |
  def scaled(v, scale):
      return saturate(round_half_even(f32(v) * from_bits(scale, f32), i32), i8)
instructions:
  LOAD:
    format: op
    match: {opcode: 1}
    unit: load
    timing: one
    semantics: |
      for i in range(n):
          x[(d + i) % 8] = dram.vec[row]
  STORE:
    format: op
    match: {opcode: 2}
    unit: store
    timing: one
    semantics: |
      for i in range(n):
          dram.vec[row] = x[(a + i) % 8]
  ALU:
    format: op
    match: {opcode: 3}
    unit: work
    timing: one
    in_place: true
    semantics: |
      if what == 0:
          x[d][o] = x[a][o] + x[b][o]
      elif what == 1:
          x[d][o] = x[a][o] - x[b][o]
      elif what == 2:
          x[d][o] = x[a][o] * x[b][o]
      elif what == 3:
          x[d][o] = minimum(x[a][o], x[b][o])
      elif what == 4:
          x[d][o] = maximum(x[a][o], x[b][o])
      elif what == 5:
          x[d][o] = minimum_number(x[a][o], x[b][o])
      elif what == 6:
          x[d][o] = maximum_number(x[a][o], x[b][o])
      elif what == 7:
          x[d][o] = x[a][o] if x[a][o] < x[b][o] else -x[b][o]
      elif what == 8:
          x[d][o] = abs(x[a][o]) if x[a][o] >= x[b][o] or is_nan(x[a][o]) else 3
      elif what == 9:
          s[d][o] = (x[a][o] == x[b][o]) + 2 * (x[a][o] != x[b][o]) + 4 * (x[a][o] <= x[b][o]) + 8 * is_nan(x[b][o])
      elif what == 10:
          x[d][o] = from_bits(s[a][o] * 3, f32)
      elif what == 11:
          s[d][o] = wrap(to_bits(x[a][o]), i32)
      else:
          for i in range(n):
              x[d][o] += x[a][o] * x[(b + i) % 8][o]
  SCALE:
    format: op
    match: {opcode: 4}
    unit: work
    timing: one
    in_place: true
    semantics: |
      for i in range(n):
          if what == 0:
              q[d][o] = scaled(s[(a + i) % 8][o], scale)
          elif what == 1:
              q[d][o] = scaled(q[(a + i) % 8][o], scale)
          elif what == 2:
              x[d][o] = f32(s[(a + i) % 8][o]) * from_bits(scale, f32)
          elif what == 3:
              t[o]: f32 = from_bits(scale, f32)
              for j in range(i):
                  t[o] += x[(b + j) % 8][o]
                  t[o] = t[o] * x[(a + j) % 8][o] if o < j else t[o]
              x[d][o] = t[o]
          else:
              t[o]: f32 = x[(a + i) % 8][o] * from_bits(scale, f32)
              s[d][o] = round_floor(t[o], i32) if what == 4 else round_half_up(t[o], i32) if what == 5 else round_half_away(t[o], i32)
              q[b][o] = round_truncate(t[o], i8)
  END:
    format: op
    match: {opcode: 0}
    unit: work
    timing: one
    semantics: |
      pass
timing:
  clock_khz: {value: 1000, source: none}
  classes:
    one: {cycles: 1, source: none}
program: {ends: END}
"""


def float_machine() -> Machine:
    """The machine."""
    return load_text(TEXT, "floats.yaml")


SPECIAL = np.array(
    [0, 1, 2, 0x7FFFFF, 0x800000, 0x800001, 0x3F000000, 0x3F800000, 0x3FC00000, 0x40200000, 0x42FE0000, 0x42FF0000, 0x43000000, 0x4B000001,
     0x4EFFFFFF, 0x4F000000, 0x5F000000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF],
    np.uint32,
)  # fmt: skip
"""float32 as bits, without signs: zero, subnormals, halves, ends of i8 and i32, the largest, infinity, NaNs quiet and signalling."""


def float_state(machine: Machine, seed: int) -> State:
    """Random bits everywhere, many of them special float32 values of either sign."""
    state, rng = random_state(machine, seed), np.random.default_rng(seed)
    for name in ("x", "dram"):
        words = state.memories[name].view(np.uint32)
        special = rng.choice(SPECIAL, words.shape) | rng.integers(0, 2, words.shape, np.uint32) << np.uint32(31)
        ordinary = rng.normal(0, 100, words.shape).astype(np.float32).view(np.uint32)
        kind = rng.integers(0, 3, words.shape)
        words[:] = np.where(kind == 0, words, np.where(kind == 1, special, ordinary))
    return state
