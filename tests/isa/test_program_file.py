"""Programs in files: every form that a machine allows gives the same program back."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.coded_machine import coded_machine
from tests.random_fields import MACHINES, random_program
from toolchain.isa import program_file
from toolchain.isa.program_file import load_program, read_hex, save_program, write_hex
from toolchain.spec.errors import Source, UserError
from toolchain.spec.load import load_machine


def errors(act: object, *arguments: object) -> list[str]:
    assert callable(act)
    with pytest.raises(UserError) as caught:
        act(*arguments)
    return [d.headline() for d in caught.value.diagnostics]


@pytest.mark.parametrize("suffix", [".bin", ".hex", ".asm", ".two", ""])
@pytest.mark.parametrize("name", MACHINES)
def test_what_is_saved_is_loaded(name: str, suffix: str, tmp_path: Path) -> None:
    machine = MACHINES[name]
    program = random_program(machine, 11)
    path = tmp_path / f"prog{suffix}"
    if machine.streams > 1 and suffix in (".bin", ".hex", ""):
        assert errors(save_program, program, path) == [
            f"{path}: E0409 a file of this form holds one stream, the program has {machine.streams}; use .two"
        ]
        assert not path.exists()
    else:
        save_program(program, path)
        assert load_program(machine, path).streams == program.streams


def test_a_container_is_known_by_its_content(tmp_path: Path) -> None:
    program = random_program(MACHINES["coded_pairs"], 12)
    save_program(program, tmp_path / "prog.two")
    (tmp_path / "prog.two").rename(tmp_path / "prog.obj")
    assert load_program(program.machine, tmp_path / "prog.obj").streams == program.streams


def test_a_bin_file_is_raw_whatever_it_begins_with(tmp_path: Path) -> None:
    (tmp_path / "prog.bin").write_bytes(b"PK\x03\x04" + bytes(28))
    assert errors(load_program, load_machine("vta"), tmp_path / "prog.bin")[0].split(": ")[1].startswith("E04")


def test_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    vta, several = load_machine("vta"), coded_machine(cores=2)
    Path("words.hex").write_bytes(b"\xff\xfe")
    Path("text.asm").write_text("NOP\n")
    Path("raw.bin").write_bytes(bytes(24))
    Path("folder").mkdir()
    assert errors(load_program, vta, Path("none.bin")) == ["none.bin: E0001 cannot read the program: No such file or directory"]
    assert errors(load_program, vta, Path("folder")) == ["folder: E0001 cannot read the program: Is a directory"]
    assert errors(load_program, vta, Path("words.hex")) == ["words.hex: E0001 cannot read the program: byte 0x0 is not UTF-8 text"]
    assert errors(load_program, vta, Path("text.asm")) == ["text.asm:1:1: E0301 unknown instruction 'NOP'"]
    assert errors(load_program, vta, Path("raw.bin"))[0].startswith("raw.bin: E0401 the program is cut short")
    assert errors(load_program, several, Path("raw.bin")) == [
        "raw.bin: E0409 coded runs 2 streams, this file holds one; use a .two container or assembly"
    ]
    monkeypatch.setattr(program_file, "MAX_BYTES", 23)
    assert errors(load_program, vta, Path("raw.bin")) == ["raw.bin: E0330 the program is larger than 23 bytes"]
    assert errors(save_program, random_program(vta, 0), Path("none/x.bin")) == ["none/x.bin: E0005 cannot write the file: No such file or directory"]


@given(st.lists(st.binary(min_size=4, max_size=4)))
def test_reading_undoes_writing(words: list[bytes]) -> None:
    data = b"".join(words)
    assert read_hex(Source("p.hex", write_hex(data))) == data


def test_word_order() -> None:
    assert write_hex(bytes([1, 2, 3, 4, 0xFF, 0, 0, 0])) == "04030201\n000000ff\n"
    assert read_hex(Source("p.hex", "04030201\r\n000000FF")) == bytes([1, 2, 3, 4, 0xFF, 0, 0, 0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("00000000\n0x000001\n", "p.hex:2:2: E0310 '0x000001' is not a word; write eight hexadecimal digits"),
        ("00000000\n\n00000001\n", "p.hex:2:1: E0310 '' is not a word; write eight hexadecimal digits"),
        ("\n", "p.hex:1:1: E0310 '' is not a word; write eight hexadecimal digits"),
        ("0000000\n", "p.hex:1:8: E0310 '0000000' is not a word; write eight hexadecimal digits"),
        ("000000001\n", "p.hex:1:9: E0310 '000000001' is not a word; write eight hexadecimal digits"),
        ("00000000 \n", "p.hex:1:9: E0310 '00000000 ' is not a word; write eight hexadecimal digits"),
        ("0000000٣\n", "p.hex:1:8: E0310 '0000000٣' is not a word; write eight hexadecimal digits"),
    ],
)
def test_a_word_that_is_none(text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        read_hex(Source("p.hex", text))
    assert [d.headline() for d in caught.value.diagnostics] == [message]


def test_only_whole_words_can_be_written() -> None:
    with pytest.raises(UserError, match=r"p\.hex: E0311 the program has 6 bytes, not a multiple of 4"):
        write_hex(bytes(6), "p.hex")
