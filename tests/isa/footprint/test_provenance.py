"""Latched registers against a walk through the program, instruction by instruction."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiny_machine import streams, tiny, word
from toolchain.analysis.order import issue_order
from toolchain.analysis.state import new_state
from toolchain.isa.decode import decode
from toolchain.isa.footprint.provenance import Provenance
from toolchain.isa.semantics import ir
from toolchain.spec.expr import Const

MACHINE = tiny("for i in range(n % 3):\n    if b + i != 3:\n        feat[0, cfg[(b + i) % 3].a] = loop[cfg[0].m]")
WORDS = st.lists(st.tuples(st.integers(0, 1), st.integers(-128, 127), st.integers(0, 7), st.integers(1, 16), st.integers(-9, 9)), max_size=12)


@settings(max_examples=30, deadline=None)
@given(WORDS, WORDS, st.integers(0, 99))
def test_reads_values_and_strays(first: list[tuple[int, ...]], second: list[tuple[int, ...]], seed: int) -> None:
    program = decode(MACHINE, streams([word(*w) for w in first], [word(*w) for w in second]))
    order, state = issue_order(program, seed), new_state(MACHINE)
    state.latched["cfg"][:] = np.arange(state.latched["cfg"].size).reshape(state.latched["cfg"].shape)
    provenance = Provenance(program, state, order)
    reads, strays, held = [], set(), {}
    names = [f.name for f in MACHINE.instruction["SET"].fields]
    for index in order.tolist():
        name, core = MACHINE.instructions[int(program.kind[index])].name, int(program.stream[index])
        if name == "SET":
            held[core, program.field(index, "b") % 2] = index
        if name != "OP":
            continue
        visited: set[int] = set()
        for i in range(program.field(index, "n") % 3):
            if program.field(index, "b") + i != 3:
                visited |= {(program.field(index, "b") + i) % 3, 0}
        strays |= {(index, at) for at in visited if at > 1}
        for at in sorted(visited - {2}):
            source = held.get((core, at), -1)
            reads.append((index, at, source))
            for field in ("a", "m"):
                value = provenance.read(ir.RegisterRead("cfg", Const(at), field), np.array([index]), np.array([at]))[0]
                before = state.latched["cfg"][core, at, names.index(field)]
                assert value == (program.field(source, field) if source >= 0 else before)
    found = provenance.reads("cfg")
    assert list(zip(found.instruction.tolist(), found.index.tolist(), found.source.tolist(), strict=True)) == reads
    assert set(zip(*(column.tolist() for column in provenance.strays("cfg")), strict=True)) == strays
