"""A machine of the tests for floating formats: vectors of eight, an instruction for each kind of operation, fields that hold the bits of a number.

Copies of it compute in each of the formats; a second format stands for what is stored.
"""

import numpy as np

from tests.random_programs import random_state
from toolchain.analysis.state import State
from toolchain.isa.decode import decode
from toolchain.isa.program import Program
from toolchain.spec.load import load_text
from toolchain.spec.model import Machine
from toolchain.spec.model.types import FLOATS

TEMPLATE = """\
target: {name: floats, summary: a vector unit that computes in KIND}
types:
  vec_t: KIND[8]
  low_t: LOW[8]
  mat_t: KIND[4, 8]
  sum_t: i32[8]
  row_t: i8[8]
memories:
  dram: {kind: dram, type: u8, depth: 1024}
  x: {kind: scratchpad, type: vec_t, depth: 8}
  m: {kind: scratchpad, type: mat_t, depth: 4}
  h: {kind: scratchpad, type: low_t, depth: 8}
  s: {kind: scratchpad, type: sum_t, depth: 8}
  q: {kind: scratchpad, type: row_t, depth: 8}
  ctl: {kind: scratchpad, type: KIND, depth: 4, control: true}
views:
  dram.vec: {type: vec_t, unit: SIZE}
units:
  load: {reads: [dram], writes: [x]}
  work: {reads: [x, m, h, s, q, ctl], writes: [x, m, h, s, q]}
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
  def first(v):
      kept = v
      return kept

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
          x[d][o] = from_bits(s[a][o] * 3, KIND)
      elif what == 11:
          s[d][o] = wrap(to_bits(x[a][o]), i32)
      elif what == 12:
          x[d][o] = divide(x[a][o], x[b][o])
      elif what == 13:
          x[d][o] = sqrt(x[a][o]) if o < n else reciprocal(x[b][o])
      elif what == 14:
          x[d][o] = fma(x[a][o], x[b][o], x[d][o])
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
              x[d][o] = KIND(f32(s[(a + i) % 8][o]) * from_bits(scale, f32))
          elif what == 3:
              t[o]: KIND = KIND(from_bits(scale, f32))
              for j in range(i):
                  t[o] += x[(b + j) % 8][o]
                  t[o] = t[o] * x[(a + j) % 8][o] if o < j else t[o]
              x[d][o] = t[o]
          elif what == 4:
              h[d][o] = LOW(x[(a + i) % 8][o])
          elif what == 5:
              h[d][o] = saturate(x[(a + i) % 8][o], LOW)
          elif what == 6:
              x[d][o] = KIND(h[(a + i) % 8][o])
          elif what == 7:
              h[d][o] = LOW(s[a][o] * (scale % 65536 << 15)) if o < n else saturate(s[b][o], LOW)
          elif what == 8:
              x[d][o] = KIND(q[a][o] * (scale << 22)) + KIND(o)
          elif what == 9:
              x[d][o] = saturate(KIND(s[a][o]), KIND) + KIND(s[b][o]) * ctl[b % 4]
          else:
              t[o]: KIND = x[(a + i) % 8][o] * KIND(from_bits(scale, f32))
              s[d][o] = round_floor(t[o], i32) if what == 10 else round_half_up(t[o], i32) if what == 11 else round_half_away(t[o], i32)
              q[b][o] = round_truncate(t[o], i8)
  SUM:
    format: op
    match: {opcode: 5}
    unit: work
    timing: one
    in_place: true
    semantics: |
      if what == 0:
          x[d][o] = sum_in_order(m[a % 4][r, o] * x[b][o])
      elif what == 1:
          x[d][o] = sum_tree(m[a % 4][r, o], 4)
      elif what == 2:
          x[d][o] = sum_tree(m[a % 4][r, c] * x[b][c] if r != o else x[b][o], 2)
      elif what == 3:
          x[d][o] = sum_exact(m[a % 4][r, c] if c != o else x[b][c])
      elif what == 4:
          x[d][o] = dot_exact(m[a % 4][r, o], m[b % 4][r, o])
      elif what == 5:
          x[d][o] = dot_exact(m[a % 4][r, c], x[b][c])
      elif what == 6:
          x[d][o] = reduce_maximum(m[a % 4][r, o]) - reduce_minimum_number(m[b % 4][r, o])
      elif what == 7:
          x[d][o] = reduce_maximum_number(m[a % 4][r, o]) * reduce_minimum(m[b % 4][r, o])
      elif what == 8:
          m[d % 4][r, o] = x[a][o] if r == n else m[b % 4][r, o]
          x[b][o] = lookup(m[a % 4][r, o], (n + o) % 4)
      else:
          x[d][o] = sum_in_order(KIND(h[a][o]) * KIND(h[b][c])) + KIND(sum_exact(h[d][c]))
  TABLE:
    format: op
    match: {opcode: 6}
    unit: work
    timing: one
    in_place: true
    semantics: |
      if what % 4 == 0:
          h[d][o] = exp(h[a][o])
      elif what % 4 == 1:
          h[d][o] = log(h[a][o])
      elif what % 4 == 2:
          h[d][o] = tanh(h[a][o])
      else:
          h[d][o] = LOW(f32(erf(h[a][o] if o < n else -h[b][o])) * from_bits(scale, f32))
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


def float_text(kind: str = "f32", low: str = "f16") -> str:
    """The machine's file in one format, with another one in its memory h. Its fields hold f32 all the same."""
    return TEMPLATE.replace("KIND", kind).replace("LOW", low).replace("SIZE", str(FLOATS[kind].bits))


def float_machine(kind: str = "f32", low: str = "f16") -> Machine:
    """The machine of `float_text`."""
    return load_text(float_text(kind, low), "floats.yaml")


SPECIAL = np.array(
    [0, 1, 2, 0x7FFFFF, 0x800000, 0x800001, 0x3F000000, 0x3F800000, 0x3FC00000, 0x40200000, 0x42FE0000, 0x42FF0000, 0x43000000, 0x4B000001,
     0x4EFFFFFF, 0x4F000000, 0x5F000000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF],
    np.uint32,
)  # fmt: skip
"""float32 as bits, without signs: zero, subnormals, halves, ends of i8 and i32, the largest, infinity, NaNs quiet and signalling."""


def float_program(machine: Machine, seed: int, length: int = 24) -> Program:
    """Random instructions, each operation as likely as any other; LOAD and STORE now and then."""
    rng = np.random.default_rng(seed)
    words = [1 + int(x) for x in rng.choice(6, length, p=[0.05, 0.05, 0.3, 0.25, 0.2, 0.15])]
    scales = np.where(rng.integers(0, 3, length) == 0, rng.choice(SPECIAL, length), rng.normal(0, 1, length).astype(np.float32).view(np.uint32))
    rest = rng.integers(0, 1 << 21, length)
    encoded = [word | int(low) << 4 | int(scale) << 25 for word, low, scale in zip(words, rest, scales, strict=True)]
    return decode(machine, [np.array([*encoded, 0], np.uint64).tobytes()])


def float_state(machine: Machine, seed: int) -> State:
    """Random bits everywhere, many of them special float32 values of either sign; of those the upper halves where half the bits are used."""
    state, rng = random_state(machine, seed), np.random.default_rng(seed)
    for name in ("x", "m", "h", "dram"):
        bits = machine.view[name].element.scalar.bits
        words = state.memories[name].view(f"u{bits // 8}")
        special = rng.choice(SPECIAL, words.shape) | rng.integers(0, 2, words.shape, np.uint32) << np.uint32(31)
        ordinary = rng.normal(0, 100, words.shape).astype(np.float32).view(np.uint32)
        kind, shift = rng.integers(0, 3, words.shape), np.uint32(32 - bits)
        words[:] = np.where(kind == 0, words, np.where(kind == 1, special >> shift, ordinary >> shift))
    return state
