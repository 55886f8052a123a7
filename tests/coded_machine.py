"""A machine of encodings alone, for tests of the binary and text tools: three lengths in 16-bit units, a match in two fields,
signed, offset, binary, hexadecimal and named fields, constraints, routing by a field, counters that only some units have."""

from toolchain.spec.load import load_text
from toolchain.spec.model import Machine

TEXT = """\
target: {name: coded, summary: encodings alone}
topology: {core: {count: CORES, streams: true}}
params:
  CORES: {value: 1, range: [1, 4], doc: streams}
  PAD: {value: 4, range: [1, 8], doc: units a program is filled up to}
memories:
  ram: {kind: dram, type: u8, depth: 65536}
  ci: {kind: register, scope: core, latches: SET}
units: {left: {reads: [ram], writes: [ram]}, right: {reads: [ram], writes: [ram]}}
encoding:
  unit: 16
  pad_words: PAD
  ASSEMBLY
  formats:
    head:
      opcode: {bits: 3, role: opcode}
      wait: {bits: 1, role: sync, default: 0}
      post: {bits: 1, role: sync, default: 0}
    short: {extends: head, bits: 16, unused: zero}
    move:
      extends: head
      bits: 48
      unused: zero
      fields:
        side: {bits: 2, names: {left: 0, right: 1}}
        mode: {bits: 2}
        flags: {bits: 4, radix: 2, default: 5}
        where: {bits: 16, radix: 16, role: address}
        step: {bits: 7, signed: true, default: -1}
        count: {bits: 8, minus: 1}
    set:
      extends: head
      bits: 32
      unused: zero
      fields:
        kernel: {bits: 4, minus: 1}
        shift: {bits: 16, signed: true, minus: -3}
sync:
  counters:
    lr: {from: left, to: right}
  waits: {wait: {right: lr}}
  posts: {post: {left: lr}}
instructions:
  MOVE:
    format: move
    match: {opcode: 1, mode: 0}
    unit: side % 2
    where:
      - {that: count > step or step == 63, message: a step goes past the count}
    timing: none
    semantics: |
      pass
  MIRROR:
    format: move
    match: {opcode: 1, mode: 3}
    unit: side % 2
    where:
      - {that: 12 // (where + 1) >= 0 and count != 7, message: seven cannot be mirrored}
      - {that: count <= ci.kernel, message: the kernel is smaller}
    timing: none
    semantics: |
      pass
  SET:
    format: set
    match: {opcode: 2}
    unit: left
    timing: none
    semantics: |
      ci = fields
  END:
    format: short
    match: {opcode: 7}
    unit: right
    timing: none
    semantics: |
      pass
timing:
  clock_khz: {value: 1000, source: test}
  classes:
    none: {source: test}
program: {ends: END}
"""


def coded_machine(pairs: bool = False, cores: int = 1) -> Machine:
    """pairs: assembly as `NAME value value name value ...`; cores: programs side by side."""
    assembly = 'assembly: {positional: [wait, post], assign: " "}' if pairs else ""
    return load_text(TEXT.replace("ASSEMBLY", assembly), "coded.yaml", overrides={"CORES": str(cores)})
