"""Runs of a bundle's programs as files that a test bench of hardware reads, and DRAM as hardware left it against the emulator's."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from toolchain.abi.dram_map import DramMap, get_tensor
from toolchain.analysis.checks import check_program
from toolchain.analysis.state import State
from toolchain.emulator import Engine
from toolchain.isa.footprint.footprints import Footprints
from toolchain.isa.program import Ints, Program
from toolchain.runtime.device import Bytes, Image
from toolchain.runtime.emulator_device import EmulatedProgram, EmulatorDevice
from toolchain.spec.errors import Source, Span, fail
from toolchain.spec.fingerprint import fingerprint
from toolchain.verify.compare import first_difference
from toolchain.verify.on_chip import instruction_text, last_writer
from toolchain.verify.verdict import Coordinates

FORMAT = 1
QUOTED = 40
HEXADECIMAL = "0123456789abcdefABCDEF"


@dataclass(frozen=True)
class RecordedRun:
    """One run of a region's program. before, after: uint8 [bytes] of DRAM, up to the end of its last segment. registers: int64 [instances, elements]
    of the host's registers, empty where the machine has none."""

    image: Image
    before: Bytes
    after: Bytes
    registers: Ints


@dataclass(frozen=True)
class RunRecorder:
    """The emulator as a device that keeps the first run of each program. runs: by region."""

    runs: dict[str, RecordedRun] = field(default_factory=dict[str, RecordedRun])

    def load(self, image: Image) -> EmulatedProgram:
        """Raises as `EmulatorDevice.load`."""
        loaded = EmulatorDevice().load(image)
        return replace(loaded, engine=self._recording(image, loaded.engine))

    def _recording(self, image: Image, engine: Engine) -> Engine:
        end, registers = image.map.bytes, image.map.registers

        def run(program: Program, state: State, order: Ints) -> None:
            memory = state.memories[image.map.memory][0]
            before = memory[:end].copy()
            engine(program, state, order)
            held = state.host[registers].copy() if registers else np.zeros((0, 0), np.int64)
            self.runs.setdefault(image.name, RecordedRun(image, before, memory[:end].copy(), held))

        return run


def run_files(run: RecordedRun, word_bytes: int) -> dict[str, bytes]:
    """The files of a run by name. word_bytes: of a word of DRAM; an instruction's words have the size that the machine's encoding says."""
    name, machine = run.image.name, run.image.program.machine
    unit = machine.encoding.unit_bytes
    files: dict[str, bytes] = {}
    for part, data, size in (
        *((f"stream{number}", data, unit) for number, data in enumerate(run.image.program.streams)),
        (f"{run.image.map.memory}.before", run.before.tobytes(), word_bytes),
        (f"{run.image.map.memory}.after", run.after.tobytes(), word_bytes),
    ):
        files |= {f"{name}.{part}.bin": data, f"{name}.{part}.hex": words_text(data, size)}
    return files | {f"{name}.json": json.dumps(_index(run, word_bytes), indent=1).encode() + b"\n"}


def _index(run: RecordedRun, word_bytes: int) -> Mapping[str, Any]:
    """An index of the other files, for a test bench to read."""
    machine, held = run.image.program.machine, run.image.map
    streams = [
        {"file": f"{run.image.name}.stream{number}", "bytes": len(data), "word_bits": 8 * machine.encoding.unit_bytes}
        for number, data in enumerate(run.image.program.streams)
    ]
    tensors = {name: {"address": held.address_of(name), "bytes": held.tensors[name].bytes} for name in (*held.inputs, *held.outputs)}
    return {
        "format": FORMAT,
        "region": run.image.name,
        "machine": machine.name,
        "config": machine.config,
        "fingerprint": fingerprint(machine),
        "instructions": len(run.image.program),
        "streams": streams,
        "memory": {"name": held.memory, "file": f"{run.image.name}.{held.memory}", "bytes": len(run.before), "word_bits": 8 * word_bytes},
        "registers": [[int(value) for value in row] for row in run.registers.tolist()],
        "inputs": {name: tensors[name] for name in held.inputs},
        "outputs": {name: tensors[name] for name in held.outputs},
    }


def words_text(data: bytes, word_bytes: int) -> bytes:
    """Little-endian words, the most significant digit first, one a line; the last one is filled up with zeros."""
    padded = np.frombuffer(data + bytes(-len(data) % word_bytes), np.uint8).reshape(-1, word_bytes)[:, ::-1]
    digits = np.frombuffer(padded.tobytes().hex().encode(), np.uint8).reshape(-1, 2 * word_bytes)
    return np.concatenate([digits, np.full((len(digits), 1), ord("\n"), np.uint8)], axis=1).tobytes()


def read_words(source: Source, size: int) -> Bytes:
    """uint8 [size] of a text as `$writememh` writes it: words in hexadecimal, comments, and `@ADDRESS` in words. Words that it leaves out are zero.

    Raises UserError E1119 for a word that is none, another width than the first word's, and one past the end.
    """
    words = list(_words(source))
    width = next((len(digits) for digits, address, _ in words if not address), 2)
    found, at = np.zeros(size + width, np.uint8), 0
    for digits, address, span in words:
        if not digits or digits.strip(HEXADECIMAL) or (not address and (len(digits) != width or width % 2)):
            hint = "unknown digits (x, z) are memory that nothing has written"
            raise fail("E1119", f"'{digits[:QUOTED]}' is no {'address' if address else f'word of {width} hexadecimal digits'}", span, hint)
        if address:
            at = int(digits, 16) * (width // 2)
        elif at >= size:
            raise fail("E1119", f"this word is past the {size} bytes of the memory", span)
        else:
            found[at : at + width // 2] = np.frombuffer(bytes.fromhex(digits)[::-1], np.uint8)
            at += width // 2
    return found[:size]


def _words(source: Source) -> Iterator[tuple[str, bool, Span]]:
    """The digits of each word, and whether it is an address."""
    for number, line in enumerate(source.text.splitlines(), 1):
        for found in re.finditer(r"\S+", line.partition("//")[0]):
            yield found[0].removeprefix("@").replace("_", ""), found[0].startswith("@"), Span(source, number, found.start() + 1)


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
