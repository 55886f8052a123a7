"""A machine of the tests around one instruction OP, whose semantics each test writes: two lockstep lanes of one core, a ring in
banks, a shared memory, a control memory of records, a latched and a host register, every overflow and every rounding."""

import textwrap
from collections.abc import Sequence

from toolchain.spec.load import load_text
from toolchain.spec.model import Machine

TEXT = """\
target: {name: tiny, summary: one instruction}
params:
  WAYS: {value: 2, range: [1, 4], doc: lockstep copies}
types:
  row_t: i8[4]
  tile_t: i8[3, 4]
  rec_t: {lo: u3, hi: i5, bits: 8}
  sum_t: i32[4]
topology:
  core: {count: 2, streams: true}
  way: {count: WAYS, lockstep: true}
memories:
  dram: {kind: dram, type: u8, depth: 256}
  feat: {kind: ring, scope: way, type: row_t, banks: 2, depth: 8 if bank == 0 else 4}
  par: {kind: scratchpad, scope: core, type: tile_t, depth: 4}
  loop: {kind: ring, type: row_t, depth: 4}
  acc: {kind: scratchpad, scope: way, type: sum_t, depth: 4, overflow: wrap}
  sat: {kind: scratchpad, scope: way, type: row_t, depth: 4, overflow: saturate}
  ctl: {kind: scratchpad, scope: core, type: rec_t, depth: 4, control: true}
  num: {kind: scratchpad, scope: core, type: i16, depth: 4, control: true}
  one: {kind: scratchpad, scope: core, type: i16, depth: 4}
  cfg: {kind: register, scope: core, latches: SET, depth: 2}
  arg: {kind: register, depth: 2, host: true}
views:
  dram.row: {type: row_t, unit: 1}
  dram.rec: {type: rec_t}
  loop.pair: {type: "i8[2, 2]"}
  par.turned: {type: "i8[4, 3]", map: "c o -> o * 4 + c"}
  loop.wide: {type: "i8[8]", unit: 1}
units:
  work: {reads: [dram, feat, par, loop, acc, sat, ctl, num, one], writes: [dram, feat, par, loop, acc, sat, ctl, num, one]}
encoding:
  unit: 32
  formats:
    op:
      bits: 32
      fields:
        opcode: {bits: 2, role: opcode}
        a: {bits: 8, signed: true}
        b: {bits: 6}
        n: {bits: 4, minus: 1}
        m: {bits: 12, signed: true}
numerics:
  up: {rounding: half_up}
  even: {rounding: half_even}
  away: {rounding: half_away}
  down: {rounding: floor}
  clip: {type: i8, overflow: saturate, low: -100, high: 100}
  low8: {type: i8, overflow: wrap}
functions: |
FUNCTIONS
instructions:
  OP:
    format: op
    match: {opcode: 0}
    unit: work
    timing: free
    in_place: true
    semantics: |
SEMANTICS
  SET:
    format: op
    match: {opcode: 1}
    unit: work
    timing: free
    semantics: |
      cfg[b % 2] = fields
  END:
    format: op
    match: {opcode: 2}
    unit: work
    timing: free
    semantics: |
      pass
timing:
  clock_khz: {value: 1000, source: none}
  classes:
    free: {cycles: 1, source: none}
program: {ends: END}
"""
DOUBLE = "def double(x):\n    return 2 * x\n"


def tiny(semantics: str, functions: str = DOUBLE, ways: int = 2) -> Machine:
    """The machine whose OP does what `semantics` says."""
    text = TEXT.replace("FUNCTIONS", textwrap.indent(functions, "  ")).replace("SEMANTICS", textwrap.indent(semantics, "      "))
    return load_text(text, "tiny.yaml", overrides={"WAYS": str(ways)})


def word(opcode: int, a: int = 0, b: int = 0, n: int = 1, m: int = 0) -> bytes:
    """One encoded instruction."""
    bits = opcode | (a & 255) << 2 | (b & 63) << 10 | (n - 1 & 15) << 16 | (m & 4095) << 20
    return bits.to_bytes(4, "little")


def stream(*words: bytes) -> bytes:
    """A program: the instructions, then END."""
    return b"".join(words) + word(2)


def streams(first: Sequence[bytes], second: Sequence[bytes] = ()) -> list[bytes]:
    """The programs of both cores."""
    return [stream(*first), stream(*second)]
