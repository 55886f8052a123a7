"""Footprints against what the reference engine touches, byte for byte, on real programs."""

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from toolchain.emulator.elements import Element
from toolchain.emulator.queues import issue_order
from toolchain.emulator.reference import Listener, Reference
from toolchain.emulator.state import State, new_state
from toolchain.isa.decode import decode
from toolchain.isa.footprint import Footprints
from toolchain.isa.footprint_vector import footprints
from toolchain.isa.program import Program
from toolchain.spec.load import load_machine

DATA = Path(__file__).parents[1] / "data" / "vta_golden"


def golden_program(name: str) -> tuple[Program, State]:
    machine = load_machine("vta")
    with np.load(DATA / f"{name}.npz", allow_pickle=False) as data:
        program, state = decode(machine, [data["insns"].tobytes()], name), new_state(machine)
        before = data["dram_before"].ravel()
    state.memories["dram"][0, : len(before)] = before
    return program, state


def touched(program: Program, state: State, index: int, reference: Reference) -> dict[tuple[str, bool], set[int]]:
    """Granules that the reference engine reads and writes, by memory and direction."""
    found: dict[tuple[str, bool], set[int]] = defaultdict(set)

    def hear(write: bool, element: Element) -> None:
        memory = program.machine.memory[element.memory]
        base = element.instance * memory.bytes
        offsets = np.arange(element.start, element.start + element.size)
        offsets = np.where(offsets >= element.end, offsets - element.end + element.base, offsets)
        found[element.memory, write] |= set(((base + offsets) // memory.granule).tolist())

    reference.execute(index, state, Listener(lambda e: hear(False, e), lambda e: hear(True, e)))
    return found


def claimed(prints: Footprints, index: int) -> dict[tuple[str, bool], set[int]]:
    """The same of the footprints, replicas that are alike spelled out; control reads left out."""
    machine, found = prints.program.machine, defaultdict[tuple[str, bool], set[int]](set)
    for run in range(int(prints.first[index]), int(prints.first[index + 1])):
        memory, write = machine.memories[int(prints.runs.memory[run])], bool(prints.runs.write[run])
        copies = machine.instances(memory.scope) if memory.name in prints.alike else 1
        for copy in range(copies):
            shift = copy * memory.bytes // memory.granule
            found[memory.name, write] |= set(range(int(prints.runs.start[run]) + shift, int(prints.runs.stop[run]) + shift))
    return {key: value for key, value in found.items() if key[1] or not machine.memory[key[0]].control}


def assert_exact(program: Program, state: State) -> None:
    order = issue_order(program)
    prints, reference = footprints(program, state, order), Reference(program)
    assert len(prints.faults) == 0
    for index in order.tolist():
        assert claimed(prints, index) == touched(program, state, index, reference), program.label(index)


@pytest.mark.parametrize("name", sorted(p.stem for p in DATA.glob("*.npz") if p.stem[0] in "ur"))
def test_exact_on_golden_programs(name: str) -> None:
    assert_exact(*golden_program(name))
