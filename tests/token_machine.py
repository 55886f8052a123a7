"""A machine of queues and counters alone, and its programs from a few numbers, for tests of synchronisation and time."""

from collections.abc import Mapping, Sequence

import numpy as np

from toolchain.isa.program import Program
from toolchain.spec.load import load_text
from toolchain.spec.model import Machine

HEAD = """
target: {name: tokens, summary: queues and counters alone}
memories:
  ram: {kind: dram, type: u8, depth: 65536}
units: {a: {reads: [ram], writes: [ram]}, b: {reads: [ram], writes: [ram]}, c: {reads: [ram], writes: [ram]}}
encoding:
  unit: 64
  formats:
    op:
      bits: 128
      fields:
        opcode: {bits: 8, role: opcode}
        unit: {bits: 8}
        waits: {bits: 8, role: sync}
        posts: {bits: 8, role: sync}
        amount: {bits: 8, role: sync}
        mask: {bits: 8}
        work: {bits: 16}
        bytes: {bits: 16}
        unused: {bits: 48, role: reserved, default: 0}
instructions:
  OP:
    format: op
    match: {opcode: 1}
    unit: min(unit, 2)
    timing: op
    semantics: |
      pass
program: {ends: OP}
"""
TIMING = """
timing:
  clock_khz: {value: 1000, source: test}
  classes:
    op: {cycles: work, source: test}
"""
COUNTERS = ("ab", "ba", "bc", "ca")


def token_machine(shape: Mapping[str, str] | None = None, topology: str = "", timing: str = TIMING, over: str = "") -> Machine:
    """Counter k of ab, ba, bc, ca is waited for and posted by bit k of two masks; shape adds to a counter's declaration."""
    ends = {"ab": ("a", "b"), "ba": ("b", "a"), "bc": ("b", "c"), "ca": ("c", "a")}
    lines = ["sync:", "  counters:"]
    lines += [f"    {name}: {{from: {ends[name][0]}, to: {ends[name][1]}{(shape or {}).get(name, '')}}}" for name in COUNTERS]
    lines += ["  rules:"]
    lines += [f"    - {{wait: {name}, when: waits >> {k} & 1, amount: amount}}" for k, name in enumerate(COUNTERS)]
    lines += [f"    - {{post: {name}, when: posts >> {k} & 1{over}}}" for k, name in enumerate(COUNTERS)]
    return load_text(topology + HEAD + "\n".join(lines) + "\n" + timing, "tokens.yaml")


def mask(names: str) -> int:
    return sum(1 << COUNTERS.index(name) for name in names.split())


def program(machine: Machine, *streams: Sequence[Mapping[str, int]]) -> Program:
    """Every instruction is a mapping of fields; unit a is 0. What is not said is 0, `amount` 1."""
    rows = [{"opcode": 1, "amount": 1, **row} for stream in streams for row in stream]
    n = len(rows)
    stream = np.repeat(np.arange(len(streams)), [len(s) for s in streams])
    names = [f.name for f in machine.instruction["OP"].fields]
    columns = {name: np.array([row.get(name, 0) for row in rows], np.int64) for name in names}
    offset = np.concatenate([np.arange(len(s)) * 16 for s in streams])
    return Program(machine, (b"",) * len(streams), np.zeros(n, np.int64), stream, offset, columns["unit"], np.arange(n), (columns,))
