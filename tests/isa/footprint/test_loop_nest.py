"""Accesses are projected onto the loops that they use, and no more."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from tests.tiny_machine import tiny
from toolchain.analysis.footprints import footprints
from toolchain.analysis.order import issue_order
from toolchain.analysis.state import new_state
from toolchain.isa.decode import decode
from toolchain.isa.footprint.loop_nest import Exists, Nest, machine_nests, memories_alike, pipelined_steps
from toolchain.isa.footprint.walk import Guard, Loop
from toolchain.isa.semantics import ir
from toolchain.spec.expr import Binary, Const
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine, Pipelined


def nest_of(machine: Machine, instruction: str, view: str, kind: str) -> Nest:
    found = [n for n in machine_nests(machine)[instruction] if n.occurrence.kind == kind and n.access.view.name == view]
    assert len({tuple(loops(n)) for n in found}) == 1
    return found[0]


def loops(nest: Nest) -> list[str]:
    return [item.var for item in nest.path if isinstance(item, Loop)]


def test_convolution_reads_each_operand_over_its_own_loops() -> None:
    machine = load_machine("dpuv3")
    assert loops(nest_of(machine, "CONV", "fm", "read")) == ["i", "j", "b", "a", "cg"]
    assert loops(nest_of(machine, "CONV", "fm", "write")) == ["i", "j", "g"]
    assert loops(nest_of(machine, "CONV", "pm.bias", "read")) == ["g"]
    weights = nest_of(machine, "CONV", "pm.weight", "read")
    assert loops(weights) == ["b", "a", "g", "cg"]
    assert sum(isinstance(item, Guard) and isinstance(item.condition, Exists) for item in weights.path) == 2
    assert memories_alike(machine) == {"fm"}


def test_replicas_of_a_shared_memory_are_the_innermost_loop() -> None:
    machine = load_machine("dpuv3")
    assert loops(nest_of(machine, "LOAD", "ddr.word", "read")) == ["i", "c", "@pe"]
    assert nest_of(machine, "LOAD", "fm", "write").replicas == 4
    assert nest_of(machine, "LOAD", "pm", "write").replicas == 1


def test_a_loop_that_nothing_uses_leaves_the_condition_that_it_runs() -> None:
    machine = tiny("for i in range(n), j in range(b):\n    loop[i] = dram.row[0]")
    write = nest_of(machine, "OP", "loop", "write")
    assert loops(write) == ["i"]
    assert {type(item) for item in write.path} == {Guard, Loop}


def test_accesses_of_the_vendors_network(vendor_streams: Path) -> None:
    """1.54 M feature reads, 0.66 M writes and 0.15 M parameter reads for 15.3 M iterations, once for all four replicas."""
    machine = load_machine("dpuv3")
    data = np.array([int(w, 16) for w in (vendor_streams / "resnet50_hand.hex").read_text().split()], np.uint32).tobytes()
    program, state = decode(machine, [data]), new_state(machine)
    prints = footprints(program, state, issue_order(program))
    conv = program.kind == [i.name for i in machine.instructions].index("CONV")
    fm, pm = (machine.memories.index(machine.memory[name]) for name in ("fm", "pm"))
    assert round(prints.traffic_read[conv, fm].sum() / 64 / 1e6, 2) == 1.54
    assert round(prints.traffic_written[conv, fm].sum() / 64 / 1e6, 2) == 0.66
    assert round(prints.traffic_read[conv, pm].sum() / 256 / 1e6, 2) in (0.15, 0.16)


def test_iterations_of_a_pipelined_instruction_are_numbered_in_order() -> None:
    plain = tiny("for i in range(n), j in range(2, b):\n    acc[(i + j) % 4][c] += 1")
    changed = (replace(i, pipelined=Pipelined(("acc",), 2, "error") if i.name == "OP" else None) for i in plain.instructions)
    (steps,) = pipelined_steps(replace(plain, instructions=tuple(changed)))["OP"]
    rounds = [ir.Extreme("max", (Const(0), Binary("-", ir.FieldRef(stop), Const(start)))) for start, stop in ((0, "n"), (2, "b"))]
    i, j = (Binary("-", ir.Var(name), Const(start)) for name, start in (("i", 0), ("j", 2)))
    assert steps.writes == (True,)
    assert steps.count == Binary("*", Binary("*", Const(1), rounds[0]), rounds[1])
    assert steps.step == Binary("+", Binary("*", Binary("+", Binary("*", Const(0), rounds[0]), i), rounds[1]), j)
