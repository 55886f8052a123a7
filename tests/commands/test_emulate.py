from pathlib import Path

import pytest

from toolchain.analysis.state import new_state
from toolchain.commands.emulate import load_memories, output_regions, set_registers
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine

MACHINE = load_machine("dpuv3")


def test_a_file_goes_to_its_offset(tmp_path: Path) -> None:
    file = tmp_path / "image.bin"
    file.write_bytes(b"\x01\x02\x03")
    state = new_state(MACHINE)
    (region,) = load_memories(state, [f"ddr={file}@0x10"])
    assert (region.offset, region.length) == (16, 3)
    assert state.memories["ddr"][0, 15:20].tolist() == [0, 1, 2, 3, 0]


def test_an_at_sign_in_the_name_of_a_folder_is_no_offset() -> None:
    (plain, placed) = output_regions(MACHINE, ["ddr=me@home/x.bin", "ddr=me@home/x.bin@0x10:4"])
    assert (plain.path, plain.offset, plain.length) == (Path("me@home/x.bin"), 0, None)
    assert (placed.path, placed.offset, placed.length) == (Path("me@home/x.bin"), 16, 4)


def test_an_instance_is_named_in_brackets(tmp_path: Path) -> None:
    file = tmp_path / "image.bin"
    file.write_bytes(b"\x07")
    state = new_state(MACHINE)
    load_memories(state, [f"fm[2]={file}"])
    assert state.memories["fm"][:, 0].tolist() == [0, 0, 7, 0]


def test_registers_go_by_their_own_name_or_by_number() -> None:
    state = new_state(MACHINE)
    set_registers(state, ["r1=0x100", "base[3]=7"])
    assert state.host["base"].tolist() == [[0, 256, 0, 7]]


@pytest.mark.parametrize(
    ("text", "code", "part"),
    [
        ("dr=x.bin", "E0003", "did you mean 'ddr'?"),
        ("fm[4]=x.bin", "E0003", "4 instances"),
        ("ddr", "E0002", "NAME=FILE"),
        ("ddr=x.bin@zero", "E0002", "form"),
        ("ddr=x.bin@0x10:-1", "E0004", "outside"),
    ],
)
def test_what_is_wrong_is_said(text: str, code: str, part: str) -> None:
    with pytest.raises(UserError) as error:
        output_regions(MACHINE, [text])
    assert error.value.diagnostics[0].code == code
    assert part in error.value.diagnostics[0].headline()


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "image.bin"
    file.write_bytes(bytes(17))
    with pytest.raises(UserError, match="E0004 17 bytes"):
        load_memories(new_state(MACHINE), [f"ddr={file}@{(1 << 30) - 16}"])


@pytest.mark.parametrize(("text", "code"), [("r9=1", "E0003"), ("r1=one", "E0002"), ("r1=99999999999999999999", "E0002")])
def test_a_bad_register_is_refused(text: str, code: str) -> None:
    with pytest.raises(UserError, match=code):
        set_registers(new_state(MACHINE), [text])
