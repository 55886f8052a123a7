"""What footprints claim against what the reference engine touches, granule by granule, and numpy against C."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from toolchain.analysis.footprints import native_footprints
from toolchain.analysis.in_place import control_conflicts
from toolchain.analysis.state import Element, State
from toolchain.emulator.reference.engine import Listener, Reference
from toolchain.isa.footprint.footprints import ALIGN, BUDGET, Footprints
from toolchain.isa.footprint.provenance import Provenance
from toolchain.isa.footprint.vector import footprints
from toolchain.isa.program import Ints, Program
from toolchain.spec.errors import UserError

Granules = dict[tuple[str, bool], set[int]]
COLUMNS = ("instruction", "memory", "write", "start", "stop")


def touched(program: Program, state: State, index: int, reference: Reference) -> Granules:
    """Granules that the reference engine reads and writes, by memory and direction; it is not asked for control memories."""
    found: Granules = defaultdict(set)

    def hear(write: bool, element: Element) -> None:
        memory = program.machine.memory[element.memory]
        offsets = np.arange(element.start, element.start + element.size)
        offsets = np.where(offsets >= element.end, offsets - element.end + element.base, offsets)
        found[element.memory, write] |= set(((element.instance * memory.bytes + offsets) // memory.granule).tolist())

    reference.execute(index, state, Listener(lambda e: hear(False, e), lambda e: hear(True, e)))
    return {key: value for key, value in found.items() if key[1] or not program.machine.memory[key[0]].control}


def claimed(prints: Footprints, index: int) -> Granules:
    """The same of the footprints, with the runs of replicas that are alike spelled out for all of them."""
    machine, found = prints.program.machine, defaultdict[tuple[str, bool], set[int]](set)
    for run in range(int(prints.first[index]), int(prints.first[index + 1])):
        memory, write = machine.memories[int(prints.runs.memory[run])], bool(prints.runs.write[run])
        inner = machine.instances(memory.scope) // machine.streams if memory.name in prints.alike else 1
        for copy in range(inner):
            shift = copy * memory.bytes // memory.granule
            found[memory.name, write] |= set(range(int(prints.runs.start[run]) + shift, int(prints.runs.stop[run]) + shift))
    return {key: value for key, value in found.items() if key[1] or not machine.memory[key[0]].control}


def assert_exact(program: Program, state: State, order: Ints, samples: Sequence[int] | None = None) -> Footprints:
    """Executes the program on the reference engine as far as it goes and compares every instruction, or only `samples`.

    What control memories hold is only known where no instruction computes it; check_program refuses the rest.
    """
    prints, reference = footprints(program, state.copy(), order), Reference(program)
    assert_native_equal(prints, state, order)
    if control_conflicts(prints):
        return prints
    faulty = set(prints.faults.instruction[(prints.faults.kind != ALIGN) & (prints.faults.kind != BUDGET)].tolist())
    anyhow = set(prints.faults.instruction.tolist())
    for index in order.tolist() if samples is None else samples:
        try:
            seen = touched(program, state, index, reference)
        except UserError as error:
            assert_expected(error, index in faulty)
            return prints
        assert index not in faulty, program.label(index)
        assert index in anyhow or claimed(prints, index) == seen, program.label(index)
    return prints


def assert_expected(error: UserError, faulty: bool) -> None:
    """The reference engine stops where a register is not set, and where footprints found a bad address."""
    codes = {d.code for d in error.diagnostics}
    assert codes == {"E0702"} or (codes == {"E0701"} and faulty), error


def assert_native_equal(prints: Footprints, state: State, order: Ints) -> None:
    """The C of the address phase gives what numpy gave, where there is a compiler."""
    native = native_footprints(prints.program, order, Provenance(prints.program, state.copy(), order))
    if native is None:
        return
    for name in COLUMNS:
        assert np.array_equal(getattr(native.runs, name), getattr(prints.runs, name)), name
        assert np.array_equal(getattr(native.feeds, name), getattr(prints.feeds, name)), name
    for name in ("instruction", "access", "kind", "low", "high"):
        assert np.array_equal(getattr(native.faults, name), getattr(prints.faults, name)), name
    assert np.array_equal(native.traffic_read, prints.traffic_read)
    assert np.array_equal(native.traffic_written, prints.traffic_written)
