"""Assembly text to programs: what it reads, what it refuses and where.

`bin -> asm -> bin` and `asm -> bin -> asm` are identities, on every machine, padding included. Examples are the first instruction of each
kind, and assemble to their own bytes.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.coded_machine import coded_machine
from tests.random_fields import MACHINES, random_program
from toolchain.isa import assembly
from toolchain.isa.assembly import assemble, disassemble, disassemble_blocks, examples_of
from toolchain.isa.decode import decode
from toolchain.isa.program import Program
from toolchain.isa.program_file import read_hex
from toolchain.spec.errors import Source, UserError
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine

PLAIN, PAIRS, CORES = coded_machine(), coded_machine(pairs=True), coded_machine(cores=3)
MOVE = "MOVE side=right where=0xbeef count=3"


def read(machine: Machine, text: str) -> Program:
    return assemble(machine, Source("prog.asm", text))


def rendered(machine: Machine, text: str) -> str:
    with pytest.raises(UserError) as caught:
        read(machine, text)
    return "\n".join(d.render() for d in caught.value.diagnostics) + "\n"


def test_vendor_text_gives_the_vendor_words(vendor_streams: Path) -> None:
    text = (vendor_streams / "conv1_pool1_fused.asm.txt").read_text()
    words = read_hex(Source("hex", (vendor_streams / "conv1_pool1_fused.hex").read_text()))
    assert assemble(load_machine("dpuv3"), Source("asm", text)).streams == (words,)


def test_the_example_in_the_documentation_assembles() -> None:
    page = (Path(__file__).parents[2] / "docs" / "programs.md").read_text()
    assert len(read(load_machine("vta"), page.split("```")[1])) == 2


@pytest.mark.parametrize(
    "line",
    [
        MOVE,
        "  MOVE\tside=1 where=48879  count=+3 ; after a semicolon",
        "MOVE count=0b11 where=0xBEEF side=0x1 flags=0101 step=-1 wait=0 # and = in a comment",
        "MOVE flags=0b101 step=-0x1 count=003 side=right where=48879 post=0",
    ],
)
def test_one_instruction_many_spellings(line: str) -> None:
    program = read(PLAIN, f"# first\n\n{line}\nEND")
    assert program.streams == read(PLAIN, f"{MOVE}\nEND\n").streams
    values = {"opcode": 1, "wait": 0, "post": 0, "side": 1, "mode": 0, "flags": 5, "where": 0xBEEF, "step": -1, "count": 3}
    assert {name: program.field(0, name) for name in values} == values
    assert program.offset.tolist() == [0, 6]


@pytest.mark.parametrize(
    "line",
    [
        "SET 0 1 kernel 3 shift -4",
        "SET 0 1 shift -4 kernel 3",
        "SET 0 1 shift=-4 kernel 3",
        "SET post 1 kernel 3 shift -4",
        "SET 0 post=1 kernel=3 shift=-4",
    ],
)
def test_values_in_pairs_and_by_position(line: str) -> None:
    assert read(PAIRS, f"{line}\nEND\n").streams == read(PLAIN, "SET post=1 kernel=3 shift=-4\nEND\n").streams


def test_streams_may_be_interleaved() -> None:
    text = ".stream 2\nSET kernel=2 shift=0\n.stream 0\nSET kernel=1 shift=0\nSET kernel=4 shift=0\nEND\n.stream 2\nSET kernel=3 shift=0\nEND\n"
    program = read(CORES, text)
    assert program.stream.tolist() == [0, 0, 0, 2, 2, 2]
    assert [program.field(i, "kernel") for i in (0, 1, 3, 4)] == [1, 4, 2, 3]
    assert program.streams[1] == b""
    assert program.streams[0] == read(PLAIN, "SET kernel=1 shift=0\nSET kernel=4 shift=0\nEND\n").streams[0]


CASES: dict[str, tuple[Machine, str]] = {
    "unknown instruction": (PLAIN, "MOV side=0\nmove\n  @!\nEND\n"),
    "unknown field": (PLAIN, "MOVE sid=0 where=0 count=1\nSET opcode=2 kernel=1 shift=0\nEND\n"),
    "unknown symbol": (PLAIN, "MOVE side=rigth where=zero count=1\nMOVE side=right where=0x count=1 flags=12\nEND\n"),
    "out of range": (
        PLAIN,
        "SET kernel=0 shift=40000\nSET kernel=17 shift=-99999999999999999999\nMOVE side=4 where=65536 step=-65 count=1\nEND\n",
    ),
    "missing": (PLAIN, "MOVE\n  SET kernel=2\nEND\n"),
    "twice": (PLAIN, "SET kernel=2 kernel=2 shift=0\nEND\n"),
    "junk": (PLAIN, "SET kernel = 2 shift=0\nSET kernel= shift=0\nSET kernel=2 shift=0 =3 17 shift\nEND\n"),
    "pairs": (PAIRS, "SET 0 2 kernel 3 shift\nSET 0 0 0 kernel 3 shift 1\nSET kernel x shift 1 kernel\nSET 0 kern 3 shift 1\nEND 0 0\n"),
    "directives": (CORES, ".strem 1\n.stream\n.stream 3\n.stream x\n.stream 1 2\n"),
    "constraint": (PLAIN, "SET kernel=1 shift=0\nMIRROR wait=0 side=left where=2 count=7\n  END post=1\n"),
    "no end": (PLAIN, "SET kernel=1 shift=0\n"),
    "nothing": (PLAIN, "# nothing\n"),
    "ends in streams": (CORES, ".stream 1\nSET kernel=1 shift=0\n.stream 0\nEND\nSET kernel=1 shift=0\nEND\n"),
    "many": (PLAIN, "NOP\n" * 30),
    "tabs": (PLAIN, "\tSET\tkernel=99\tshift=0\n\tEND\n"),
    "long": (PLAIN, f"SET kernel={'1' * 5000} shift=0\nSET {'x' * 20000}\n{'y' * 500}\nEND\n"),
}


@pytest.mark.parametrize("case", CASES)
def test_errors(case: str, golden: Callable[[str, str], None]) -> None:
    text = "\n".join(line[:200] for line in rendered(*CASES[case]).splitlines())
    golden(f"isa/assembler/{case.replace(' ', '_')}.txt", text + "\n")


NAMES = ["MOVE", "SET", "END", "side=0", "side", "kernel", "kernel=1", "shift=0", "where=0x1", "count=3", ".stream"]
WORDS = st.sampled_from([*NAMES, "=", "==", "0", "1", "-", "#", ";", ".", "0b", "٣", "\x0b", "\n"])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.one_of(WORDS, st.text(max_size=6)), max_size=30), st.sampled_from([PLAIN, PAIRS, CORES]))
def test_random_text_is_refused_or_survives(tokens: list[str], machine: Machine) -> None:
    try:
        program = read(machine, " ".join(tokens) + "\nEND")
    except UserError:
        return
    assert read(machine, disassemble(program)).streams == program.streams


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", MACHINES)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1 << 32), at=st.floats(0, 1), noise=st.text(alphabet="0=x# .\n-", min_size=1, max_size=3))
def test_changed_text_is_refused_or_survives(name: str, seed: int, at: float, noise: str) -> None:
    machine = MACHINES[name]
    text = disassemble(random_program(machine, seed, 6))
    cut = int(at * len(text))
    try:
        program = read(machine, text[:cut] + noise + text[cut:])
    except UserError:
        return
    assert read(machine, disassemble(program)).streams == program.streams


@pytest.mark.parametrize("mark", ["\x0b", "\x0c", "\x1c"])
def test_what_no_editor_calls_a_line_is_a_space(mark: str) -> None:
    assert read(PLAIN, f"{mark}{MOVE}{mark}\nEND\n").streams == read(PLAIN, f"{MOVE}\nEND\n").streams
    assert rendered(PLAIN, f"END{mark}\nNOPE\n").split("\n")[:2] == ["prog.asm:2:1: E0301 unknown instruction 'NOPE'", "NOPE"]


@pytest.mark.parametrize("mark", ["\r\n", "\r", "\x85", "\u2028"])
def test_lines_are_those_that_messages_quote(mark: str) -> None:
    assert rendered(PLAIN, f"END{mark}NOPE\n").split("\n")[:2] == ["prog.asm:2:1: E0301 unknown instruction 'NOPE'", "NOPE"]


GOLDEN = sorted((Path(__file__).parents[1] / "data" / "vta_golden").glob("*.npz"))

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
    monkeypatch.setattr(assembly, "BLOCK", 7)
    monkeypatch.setattr(assembly, "_KEPT", 2)
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
