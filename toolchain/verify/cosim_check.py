"""DRAM as hardware left it after a recorded run, against the emulator's: where it first differs, and which instruction wrote there."""

from dataclasses import dataclass

import numpy as np

from toolchain.abi.dram_map import DramMap, get_tensor
from toolchain.analysis.checks import check_program
from toolchain.isa.footprint.footprints import Footprints
from toolchain.isa.program import Ints
from toolchain.runtime.cosim import RecordedRun
from toolchain.runtime.device import Bytes
from toolchain.verify.compare import first_difference
from toolchain.verify.on_chip import instruction_text, last_writer
from toolchain.verify.verdict import Coordinates

STRETCHES = 64
"""Stretches of differing bytes whose writers are looked up; with more, those at the lowest addresses."""


@dataclass(frozen=True)
class MemoryDifference:
    """address: of a byte, of the earliest instruction that left a wrong one. expected, found: that byte. differing: bytes in all. writer: that
    instruction in words, empty where none wrote there. segment: of the memory map. tensor, coordinates: the first wrong element of a result,
    (image, channel, row, column); empty where all results are right."""

    address: int
    expected: int
    found: int
    differing: int
    writer: str
    segment: str
    tensor: str = ""
    coordinates: Coordinates = ()


def compare_memory(run: RecordedRun, found: Bytes) -> MemoryDifference | None:
    """None where hardware left the same bytes. found: uint8 [bytes], as `run.after`."""
    wrong = np.flatnonzero(run.after != found)
    if not len(wrong):
        return None
    address, writer = _earliest(run, wrong)
    held = run.image.map
    segment = next((n for n, s in held.segments.items() if not s.memory and s.address <= address < s.address + s.bytes), "")
    tensor, coordinates = _element(run, found)
    return MemoryDifference(address, int(run.after[address]), int(found[address]), len(wrong), writer, segment, tensor, coordinates)


def _earliest(run: RecordedRun, wrong: Ints) -> tuple[int, str]:
    """A wrong byte and its writer: of the instructions that left wrong bytes, the one that ran first."""
    program, held = run.image.program, run.image.map
    state = held.state(program.machine, {})
    state.memories[held.memory][0, : len(run.before)] = run.before
    checked = check_program(program, state)
    rank = np.argsort(checked.order)
    starts = wrong[np.flatnonzero(np.diff(wrong, prepend=-2) > 1)][:STRETCHES].tolist()
    writers = [(writer, address) for address in starts if (writer := _writer(held, checked.footprints, rank, address)) is not None]
    if not writers:
        return int(wrong[0]), ""
    writer, address = min(writers, key=lambda pair: (int(rank[pair[0]]), pair[1]))
    return address, instruction_text(program, writer)


def _writer(held: DramMap, prints: Footprints, rank: Ints, address: int) -> int | None:
    granule = prints.program.machine.memory[held.memory].granule
    return last_writer(prints, rank, held.memory, address // granule, len(rank))


def _element(run: RecordedRun, found: Bytes) -> tuple[str, Coordinates]:
    machine, held = run.image.program.machine, run.image.map
    for name in held.outputs:
        stored, first = held.tensors[name], held.address_of(name)
        expected, other = (get_tensor(machine, stored, memory[first : first + stored.bytes]) for memory in (run.after, found))
        if difference := first_difference(expected, other):
            return name, difference.coordinates
    return "", ()
