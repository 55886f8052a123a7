"""`bin -> asm -> bin` and `asm -> bin -> asm` are identities, on every machine, padding included. Examples are the first instruction of each
kind, and assemble to their own bytes."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.coded_machine import coded_machine
from tests.random_fields import MACHINES, random_program
from toolchain.isa.assembly import disassembler
from toolchain.isa.assembly.assembler import assemble
from toolchain.isa.assembly.disassembler import disassemble, disassemble_blocks, examples_of
from toolchain.isa.decode import decode
from toolchain.isa.program import Program
from toolchain.isa.program_file import read_hex
from toolchain.spec.errors import Source
from toolchain.spec.load import load_machine

GOLDEN = sorted((Path(__file__).parents[2] / "data" / "vta_golden").glob("*.npz"))

TEXT = """FLUSH
CONFIG_MVIN id=1 stride=64
CONFIG_MVIN id=0 stride=32
MVIN address=0x40 row=3 columns=16 rows=4 minor=2
"""


def check_identities(program: Program) -> str:
    text = disassemble(program)
    again = assemble(program.machine, Source("asm", text))
    assert again.streams == program.streams
    assert np.array_equal(again.offset, program.offset)
    assert disassemble(again) == text
    return text


@pytest.mark.parametrize("name", MACHINES)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_identities(name: str, seed: int) -> None:
    check_identities(random_program(MACHINES[name], seed))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.stem)
def test_identities_of_golden_programs(path: Path) -> None:
    with np.load(path) as held:
        program = decode(load_machine("vta"), [held["insns"].tobytes()])
    check_identities(program)


def test_vendor_programs(vendor_streams: Path) -> None:
    for path in sorted(vendor_streams.glob("*.hex")):
        check_identities(decode(load_machine("dpuv3"), [read_hex(Source(path.name, path.read_text()))]))


def test_vendor_text(vendor_streams: Path) -> None:
    words = read_hex(Source("hex", (vendor_streams / "conv1_pool1_fused.hex").read_text()))
    text = (vendor_streams / "conv1_pool1_fused.asm.txt").read_text()
    assert disassemble(decode(load_machine("dpuv3"), [words])).splitlines() == [line.rstrip() for line in text.splitlines()]


@pytest.mark.parametrize(("pairs", "cores"), [(False, 1), (True, 1), (False, 3)])
def test_text(pairs: bool, cores: int, golden: Callable[[str, str], None]) -> None:
    golden(f"isa/disassembler/{'pairs' if pairs else 'assigned'}_{cores}.txt", check_identities(random_program(coded_machine(pairs, cores), 6, 12)))


def test_text_of_golden_program(golden: Callable[[str, str], None]) -> None:
    with np.load(next(p for p in GOLDEN if p.stem == "u10_alu_shr_vec")) as held:
        golden("isa/disassembler/u10_alu_shr_vec.txt", check_identities(decode(load_machine("vta"), [held["insns"].tobytes()])))


def test_comments_stand_behind_their_instruction_and_are_no_part_of_it() -> None:
    program = random_program(coded_machine(cores=3), 5, 12)
    notes = [f"reads ram[{i}]\nagain" if i % 2 else "" for i in range(len(program))]
    text = disassemble(program, notes)
    assert text == disassemble(program, notes.__getitem__)
    lines = [line for line in text.splitlines() if not line.startswith(".")]
    assert [line.partition("  # ")[2] for line in lines] == [" ".join(note.split()) for note in notes]
    assert assemble(program.machine, Source("asm", text)).streams == program.streams


def test_blocks_join_to_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    program = random_program(coded_machine(), 3)
    whole = disassemble(program)
    monkeypatch.setattr(disassembler, "BLOCK", 7)
    monkeypatch.setattr(disassembler, "_KEPT", 2)
    blocks = list(disassemble_blocks(program))
    assert len(blocks) == -(-len(program) // 7) > 2
    assert "".join(blocks) == whole


def test_the_first_of_each_kind() -> None:
    machine = load_machine("gemmini")
    found = examples_of(assemble(machine, Source("p.asm", TEXT)))
    assert list(found) == ["CONFIG_MVIN", "MVIN", "FLUSH"]
    assert found["CONFIG_MVIN"].line.startswith("CONFIG_MVIN id=1 stride=64")
    for example in found.values():
        assert assemble(machine, Source("one.asm", f"{example.line}\n")).streams == (example.data,)
