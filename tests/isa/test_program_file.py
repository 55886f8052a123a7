"""Programs in files: every form that a machine allows gives the same program back; nothing hostile or foreign gets through a container."""

import io
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.coded_machine import coded_machine
from tests.random_fields import MACHINES, random_program
from toolchain.isa import program_file
from toolchain.isa.assembly import assemble
from toolchain.isa.program_file import MANIFEST, load_program, read_container, read_hex, save_program, write_container, write_hex
from toolchain.spec.errors import Source, UserError
from toolchain.spec.load import load_machine

CODED = coded_machine(cores=2)
PROGRAM = assemble(CODED, Source("asm", "SET kernel=3 shift=1\nEND\n.stream 1\nMIRROR side=left where=1 count=1\nEND\n"))
GOOD = write_container(PROGRAM)


def members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(held: Mapping[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", compression) as archive:
        for name, data in held.items():
            archive.writestr(name, data)
    return target.getvalue()


def with_manifest(change: Callable[[dict[str, Any]], object]) -> bytes:
    held = members(GOOD)
    manifest = json.loads(held[MANIFEST])
    change(manifest)
    return packed({**held, MANIFEST: json.dumps(manifest).encode()})


def twice() -> bytes:
    target = io.BytesIO(GOOD)
    with zipfile.ZipFile(target, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("stream1.bin", b"")
    return target.getvalue()


def patched(find: bytes, change: Callable[[bytearray, int], None]) -> bytes:
    """GOOD with a change at the last place of `find`."""
    data = bytearray(GOOD)
    change(data, data.rindex(find))
    return bytes(data)


def grow(data: bytearray, at: int) -> None:
    """The sizes in a central directory entry: both 256 MiB."""
    data[at + 20 : at + 28] = (1 << 28).to_bytes(4, "little") * 2


def flip(data: bytearray, at: int) -> None:
    data[at] ^= 1


def cases() -> dict[str, bytes]:
    held = members(GOOD)
    return {
        "not a zip": b"PK\x03\x04 and then nothing of the kind",
        "cut": GOOD[:-30],
        "no manifest": packed({"stream0.bin": b""}),
        "missing stream": packed({k: v for k, v in held.items() if k != "stream1.bin"}),
        "extra stream": packed({**held, "stream2.bin": b""}),
        "path": packed({**held, "../stream0.bin": b""}),
        "a bundle": packed({MANIFEST: b"{}", "data-00.bin": b"", "region0.two": GOOD}),
        "compressed": packed(held, zipfile.ZIP_DEFLATED),
        "bomb": packed({**held, "stream0.bin": bytes(10 << 20)}, zipfile.ZIP_DEFLATED),
        "twice": twice(),
        "sizes": patched(b"PK\x01\x02", grow),
        "checksum": patched(held["stream1.bin"][:8], flip),
        "big manifest": packed({**held, MANIFEST: b" " * (2 << 20)}),
        "not json": packed({**held, MANIFEST: b"{"}),
        "deep json": packed({**held, MANIFEST: b"[" * 100000}),
        "wrong format": with_manifest(lambda m: m.update(format="other")),
        "wrong version": with_manifest(lambda m: m.update(version=2)),
        "version is text": with_manifest(lambda m: m.update(version="1")),
        "no fingerprint": with_manifest(lambda m: m.pop("fingerprint")),
        "streams are no list": with_manifest(lambda m: m.update(streams=3)),
        "stream is no mapping": with_manifest(lambda m: m.update(streams=[1])),
        "number of streams": with_manifest(lambda m: m["streams"].pop()),
        "length": with_manifest(lambda m: m["streams"][0].update(bytes=3)),
        "digest": with_manifest(lambda m: m["streams"][0].update(sha256="0" * 64)),
        "another machine": with_manifest(lambda m: m.update(machine="vta", config="pynq", fingerprint="x")),
        "another architecture": with_manifest(lambda m: m.update(fingerprint="x")),
    }


@pytest.mark.parametrize("case", cases())
def test_container_errors(case: str, golden: Callable[[str, str], None]) -> None:
    with pytest.raises(UserError) as caught:
        read_container(CODED, cases()[case], "prog.two")
    golden(f"isa/container/{case.replace(' ', '_')}.txt", f"{caught.value}\n")


def test_another_configuration_is_named_with_what_differs(golden: Callable[[str, str], None]) -> None:
    with pytest.raises(UserError) as caught:
        read_container(coded_machine(cores=3), GOOD, "prog.two")
    golden("isa/container/another_parameter.txt", f"{caught.value}\n")


def test_timing_does_not_matter() -> None:
    """A faster clock runs the same programs."""
    program = random_program(MACHINES["vta"], 2)
    assert read_container(load_machine("vta", overrides={"CLOCK_KHZ": "5"}), write_container(program)) == list(program.streams)


@pytest.mark.parametrize("name", MACHINES)
def test_reading_a_container_undoes_writing(name: str) -> None:
    program = random_program(MACHINES[name], 3)
    data = write_container(program)
    assert read_container(MACHINES[name], data) == list(program.streams)
    assert write_container(program) == data


def test_the_bytes_are_the_same_for_ever(golden: Callable[[str, str], None]) -> None:
    """Dates, modes and order are fixed; the manifest is text."""
    with zipfile.ZipFile(io.BytesIO(GOOD)) as archive:
        entries = [f"{e.filename} {e.date_time} {e.external_attr:#o} {e.create_system} {e.compress_type}" for e in archive.infolist()]
    manifest = json.loads(members(GOOD)[MANIFEST])
    assert len(manifest.pop("fingerprint")) == 64
    golden("isa/container/manifest.txt", "\n".join([*entries, json.dumps(manifest, indent=1)]) + "\n")


@settings(max_examples=45, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), min_size=1, max_size=4), st.integers(0, 50))
def test_damage_is_refused_or_harmless(changes: list[tuple[int, int]], cut: int) -> None:
    data = bytearray(GOOD)
    for at, value in changes:
        data[at] = value
    try:
        streams = read_container(CODED, bytes(data[: len(data) - cut]))
    except UserError:
        return
    assert streams == list(PROGRAM.streams)


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
