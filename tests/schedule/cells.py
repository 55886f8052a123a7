"""A machine that copies cells of one memory on three units, with whatever counters a test gives it, and its programs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from hypothesis import strategies as st

from toolchain.analysis.state import State, new_state
from toolchain.isa.checks import build_program
from toolchain.isa.encode import encode_streams
from toolchain.isa.program import Ints, Program
from toolchain.spec.load import load_text
from toolchain.spec.model import Machine

UNITS = ("a", "b", "c")
PAIRS = tuple("".join(pair) for pair in product(UNITS, UNITS))
EVERY = dict.fromkeys((pair for pair in PAIRS if pair[0] != pair[1]), "")
"""A counter without limit for every pair of different units."""
TEXT = """
target: {{name: cells, summary: copies cells}}
memories:
  ram: {{kind: {kind}, type: u8, depth: 16}}
units:
{units}
encoding:
  unit: 64
  formats:
    head: {{opcode: {{bits: 4, role: opcode}}, unit: {{bits: 4}}, src: {{bits: 4}}, dst: {{bits: 4}}}}
    quiet: {{extends: head, bits: 64, unused: zero}}
    op:
      extends: head
      bits: 64
      unused: zero
      fields: {{waits: {{bits: 16, role: {role}, default: 0}}, posts: {{bits: 16, role: {role}, default: 0}}}}
sync:
  doc: as a test wants it
{counters}
{rules}
{events}
{nops}
{interlock}
instructions:
  END:
    format: op
    match: {{opcode: 0}}
    unit: min(unit, 2)
    timing: one
    semantics: |
      pass
  COPY:
    format: op
    match: {{opcode: 1}}
    unit: min(unit, 2)
    timing: one
    semantics: |
      ram[dst] = ram[src] + 3 * src + dst & 255
  QUIET:
    format: quiet
    match: {{opcode: 2}}
    unit: min(unit, 2)
{occupies}
    timing: one
    semantics: |
      ram[dst] = ram[src] + 5 & 255
  IDLE:
    format: op
    match: {{opcode: 3}}
    unit: min(unit, 2)
    timing: one
    semantics: |
      pass
timing:
  clock_khz: {{value: 1000, source: test}}
  classes:
    one: {{cycles: 1 + src, latency: {latency}, source: test}}
program: {{ends: END, last: true}}
"""


def cells(
    counters: Mapping[str, str],
    nops: str = "abc",
    overlaps: str = "",
    depth: int = 0,
    event: bool = False,
    interlock: str = "",
    latency: str = "0",
    occupies: str = "",
    kind: str = "dram",
) -> Machine:
    """counters: 'ab': ', depth: 2' declares one from a to b. nops, overlaps: units that can idle, or start early; depth: of queues.
    event: the last bits of an IDLE post to a counter that belongs to no units, and wait on it. interlock: as the file declares it.
    occupies: the units that a quiet instruction keeps to itself besides its own. kind: of the memory."""
    lines = {
        "units": [
            f"  {u}: {{reads: [ram], writes: [ram], overlaps: {str(u in overlaps).lower()}{f', depth: {depth}' if depth else ''}}}" for u in UNITS
        ],
        "counters": ["  counters:"] * bool(counters or event)
        + [f"    {p}: {{from: {p[0]}, to: {p[1]}{shape}}}" for p, shape in counters.items()]
        + ["    event: {count: 4}"] * event,
        "rules": ["  rules:"] * bool(counters or event)
        + [f"    - {{wait: {p}, when: waits >> {k} & 1, instructions: [END, COPY, IDLE]}}" for k, p in enumerate(counters)]
        + [
            f"    - {{post: {p}, when: posts >> {k} & 1, instructions: [END, COPY, IDLE]}}"
            for k, p in enumerate(counters)
            if "all_prior" not in counters[p]
        ],
        "events": [f"    - {{{action}: event, when: {action}s >> 15 & 1, instructions: [IDLE]}}" for action in ("post", "wait") if event],
        "nops": ["  nops:"] * bool(nops) + [f"    {u}: {{instruction: IDLE, fields: {{unit: {UNITS.index(u)}}}}}" for u in nops],
        "interlock": [f"  interlock: {interlock}"] * bool(interlock),
        "latency": [latency],
        "kind": [kind],
        "occupies": [f"    occupies: [{', '.join(occupies)}]"] * bool(occupies),
        "role": ["sync" if counters or event else "layout"],
    }
    return load_text(TEXT.format(**{name: "\n".join(text) for name, text in lines.items()}), "cells.yaml")


@dataclass(frozen=True)
class Op:
    """Copies a cell on a unit; quiet: by the instruction without sync fields. event: does nothing but `posts` it, or `waits` for it."""

    unit: int
    source: int
    to: int
    quiet: bool = False
    event: str = ""


def program(machine: Machine, ops: Sequence[Op]) -> Program:
    """The copies in order, then the end on unit a. No tokens."""
    rows = [(3 if op.event else 2 if op.quiet else 1, op.unit, op.source, op.to, op.event) for op in ops] + [(0, 0, 0, 0, "")]
    kind = np.array([row[0] for row in rows], np.int64)
    columns: list[dict[str, Ints]] = []
    for k, instruction in enumerate(machine.instructions):
        own = [{"opcode": k, "unit": r[1], "src": r[2], "dst": r[3], r[4]: 1 << 15} for r in rows if r[0] == k]
        columns.append({f.name: np.array([r.get(f.name, 0) for r in own], np.int64) for f in instruction.fields})
    stream = np.zeros(len(rows), np.int64)
    data, offset = encode_streams(machine, kind, stream, columns)
    return build_program(machine, data, kind, stream, offset, tuple(columns))


def memory(machine: Machine) -> State:
    """Cells with different contents."""
    state = new_state(machine)
    state.memories["ram"][0] = np.arange(16) * 7
    return state


def copies(quiet: bool = False, most: int = 24, count: int = 5) -> st.SearchStrategy[list[Op]]:
    """Programs over few cells, so that they meet."""
    cell = st.integers(0, count - 1)
    return st.lists(st.builds(Op, st.integers(0, 2), cell, cell, st.booleans() if quiet else st.just(False)), max_size=most)


@st.composite
def counter_sets(draw: st.DrawFn, shapes: Sequence[str]) -> dict[str, str]:
    """For every pair of different units a counter of one of the shapes."""
    return {pair: draw(st.sampled_from(shapes)) for pair in EVERY}
