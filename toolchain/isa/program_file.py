"""Programs in files, in any of their forms: assembly, one stream, words in hexadecimal, and the object container.

The container is a zip of `manifest.json` and one member a stream, the same bytes for the same program.
"""

import hashlib
import io
import json
import re
import zipfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from toolchain.isa.assembly import assemble, disassemble
from toolchain.isa.decode import decode
from toolchain.isa.program import Program
from toolchain.spec.errors import Source, Span, fail
from toolchain.spec.files import read_limited, write_atomic
from toolchain.spec.fingerprint import fingerprint
from toolchain.spec.model import Machine

MAGIC = b"PK\x03\x04"
FORMAT = "tilewright-program"
VERSION = 1
MANIFEST = "manifest.json"
MAX_MANIFEST = 1 << 20
MOST_DIFFERENCES = 3
T = TypeVar("T")
_NAME = re.compile(r"manifest\.json\Z|stream(0|[1-9][0-9]{0,5})\.bin\Z")
_BUNDLED = re.compile(r"region[0-9]{1,9}\.\w+\Z")
"""A member that bundles alone have."""
_DATE = (1980, 1, 1, 0, 0, 0)


def write_container(program: Program) -> bytes:
    """The container of a program; the same bytes wherever and whenever it is written."""
    machine = program.machine
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "machine": machine.name,
        "config": machine.config,
        "params": dict(sorted(machine.params.items())),
        "fingerprint": fingerprint(machine),
        "streams": [{"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for data in program.streams],
    }
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        _add(archive, MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())
        for number, data in enumerate(program.streams):
            _add(archive, _member(number), data)
    return target.getvalue()


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    entry = zipfile.ZipInfo(name, _DATE)
    entry.create_system, entry.external_attr = 3, 0o100644 << 16
    archive.writestr(entry, data)


def _member(number: int) -> str:
    return f"stream{number}.bin"


@dataclass(frozen=True)
class _Manifest:
    """streams: (bytes, SHA-256) of each."""

    machine: str
    config: str
    fingerprint: str
    params: dict[str, int]
    streams: list[tuple[int, str]]


@dataclass(frozen=True)
class _Reader:
    """A container and its name in errors."""

    archive: zipfile.ZipFile
    place: str

    def fail(self, code: str, message: str, hint: str = "") -> Exception:
        return fail(code, message, hint=hint, place=self.place)

    def typed(self, held: Any, key: str, kind: type[T]) -> T:
        """held[key], which must be of that very type."""
        value = cast("dict[str, Any]", held).get(key) if isinstance(held, dict) else None
        if type(value) is not kind:
            raise self.fail("E0323", f"{MANIFEST} lacks a proper '{key[:40]}'")
        return value

    def member(self, name: str) -> bytes:
        try:
            return self.archive.read(name)
        except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError):
            raise self.fail("E0320", f"the member '{name}' is damaged") from None
        except KeyError:
            raise self.fail("E0321", f"the member '{name}' is missing") from None


def read_container(machine: Machine, data: bytes, place: str = "") -> list[bytes]:
    """The streams of a container made for this very machine.

    Raises UserError E0320 (not a container), E0321 (members), E0322 (sizes), E0323 (manifest), E0324 (another machine),
    E0325 (damaged stream).
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, OSError, EOFError, ValueError, NotImplementedError, RuntimeError):
        raise fail("E0320", "not an object container: it is no zip archive, or a damaged one", place=place) from None
    reader = _Reader(archive, place)
    _check_members(reader, len(data))
    manifest = _manifest(reader)
    _check_machine(reader, machine, manifest)
    expected = {MANIFEST, *map(_member, range(len(manifest.streams)))}
    for name in archive.namelist():
        if name not in expected:
            raise reader.fail("E0321", f"the member '{name}' is not in the manifest")
    return [_stream(reader, number, *entry) for number, entry in enumerate(manifest.streams)]


def _check_members(reader: _Reader, size: int) -> None:
    entries = reader.archive.infolist()
    often = Counter(e.filename for e in entries)
    if any(_BUNDLED.match(name) for name in often):
        hint = "`tilewright bundle disasm` prints the assembly of one; a build leaves REGION.asm beside its bundle"
        raise reader.fail("E0321", "this is a bundle, of a whole model, and no program", hint)
    for entry in entries:
        name = entry.filename
        if not _NAME.match(name) or often[name] > 1:
            raise reader.fail(
                "E0321", f"the member {name[:80]!a} {'is there twice' if often[name] > 1 else 'does not belong into an object container'}"
            )
        if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1 or entry.file_size != entry.compress_size:
            raise reader.fail("E0321", f"the member '{name}' is compressed or encrypted")
    total = sum(e.file_size for e in entries)
    if total > size:
        raise reader.fail("E0322", f"the members have {total} bytes, more than the file")


def _manifest(reader: _Reader) -> _Manifest:
    if any(e.filename == MANIFEST and e.file_size > MAX_MANIFEST for e in reader.archive.infolist()):
        raise reader.fail("E0322", f"{MANIFEST} is larger than {MAX_MANIFEST} bytes")
    try:
        value: Any = json.loads(reader.member(MANIFEST))
    except (ValueError, RecursionError):
        raise reader.fail("E0323", f"{MANIFEST} is not JSON") from None
    if not isinstance(value, dict) or cast("dict[str, Any]", value).get("format") != FORMAT:
        raise reader.fail("E0323", f'{MANIFEST} does not say "format": "{FORMAT}"')
    held = cast("dict[str, Any]", value)
    if held.get("version") != VERSION:
        raise reader.fail("E0323", f"the manifest's version is {json.dumps(held.get('version'))[:20]}, this program reads {VERSION}")
    params = cast("dict[str, Any]", reader.typed(held, "params", dict))
    streams = cast("list[Any]", reader.typed(held, "streams", list))
    machine, config, print_ = (reader.typed(held, key, str) for key in ("machine", "config", "fingerprint"))
    entries = [(reader.typed(entry, "bytes", int), reader.typed(entry, "sha256", str)) for entry in streams]
    return _Manifest(machine, config, print_, {name: reader.typed(params, name, int) for name in params}, entries)


def _check_machine(reader: _Reader, machine: Machine, manifest: _Manifest) -> None:
    """Raises UserError E0324 with the differences."""
    there, here = (f"{name}:{config}" if config else name for name, config in ((manifest.machine, manifest.config), (machine.name, machine.config)))
    if manifest.fingerprint == fingerprint(machine):
        if len(manifest.streams) != machine.streams:
            raise reader.fail("E0323", f"the manifest lists {len(manifest.streams)} streams, {machine.name} runs {machine.streams}")
        return
    names = sorted({*manifest.params, *machine.params})
    values = [(name, manifest.params.get(name, "not"), machine.params.get(name, "not")) for name in names]
    different = [f"{name} is {a} there, {b} here" for name, a, b in values if a != b]
    why = "; ".join(different[:MOST_DIFFERENCES]) if manifest.machine == machine.name else ""
    if there != here:
        raise reader.fail("E0324", f"made for {there[:80]}, this is {here}", why)
    raise reader.fail("E0324", f"made for another form of {here}", why or "the machine's architecture has changed since")


def _stream(reader: _Reader, number: int, size: int, digest: str) -> bytes:
    data = reader.member(_member(number))
    if len(data) != size:
        raise reader.fail("E0325", f"stream {number} is damaged: it has {len(data)} bytes, the manifest says {size}")
    if hashlib.sha256(data).hexdigest() != digest:
        raise reader.fail("E0325", f"stream {number} is damaged: its SHA-256 is not the manifest's")
    return data


MAX_BYTES = 1 << 28
CONTAINER = ".two"
_WORD = re.compile(r"[0-9a-fA-F]{8}\Z")
_DIGITS = re.compile(r"[0-9a-fA-F]{0,8}")
_QUOTED = 40


def load_program(machine: Machine, path: Path) -> Program:
    """The program in a file: `.asm` is assembly, `.hex` words as text, a zip an object container, anything else raw bytes.

    A file named `.bin` is raw whatever it begins with. Raises UserError: E0001, E0330 for the file, E03xx and E04xx for
    its contents.
    """
    data = read_limited(path, MAX_BYTES, "the program")
    place = str(path)
    if path.suffix == ".asm":
        return assemble(machine, Source(place, _text(data, place)))
    if path.suffix == CONTAINER or (path.suffix not in (".hex", ".bin") and data.startswith(MAGIC)):
        return decode(machine, read_container(machine, data, place), place)
    if machine.streams > 1:
        raise fail(
            "E0409",
            f"{machine.name} runs {machine.streams} streams, this file holds one",
            hint=f"use a {CONTAINER} container or assembly",
            place=place,
        )
    return decode(machine, [read_hex(Source(place, _text(data, place))) if path.suffix == ".hex" else data], place)


def _text(data: bytes, place: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise fail("E0001", f"cannot read the program: byte {error.start:#x} is not UTF-8 text", place=place) from None


def save_program(program: Program, path: Path) -> None:
    """Writes a program, whole or not at all: `.asm`, `.hex`, `.two`, anything else raw. Raises UserError E0005, E0311, E0409."""
    if path.suffix == ".asm":
        data = disassemble(program).encode()
    elif path.suffix == CONTAINER:
        data = write_container(program)
    elif len(program.streams) > 1:
        raise fail("E0409", f"a file of this form holds one stream, the program has {len(program.streams)}", hint=f"use {CONTAINER}", place=str(path))
    else:
        only = b"".join(program.streams)
        data = write_hex(only, str(path)).encode() if path.suffix == ".hex" else only
    write_atomic(path, data)


def read_hex(source: Source) -> bytes:
    """The bytes of a hex text. Raises UserError E0310 at the first line that is not a word."""
    lines = source.text.replace("\r\n", "\n").removesuffix("\n").split("\n") if source.text else []
    for number, line in enumerate(lines, 1):
        if not _WORD.match(line):
            column = len("".join(_DIGITS.findall(line)[:1])) + 1
            raise fail("E0310", f"'{line[:_QUOTED]}' is not a word", Span(source, number, column), "write eight hexadecimal digits")
    return np.frombuffer(bytes.fromhex("".join(lines)), ">u4").astype("<u4").tobytes()


def write_hex(data: bytes, place: str = "") -> str:
    """The hex text of a program. Raises UserError E0311 when its length is not a multiple of four bytes."""
    if len(data) % 4:
        raise fail("E0311", f"the program has {len(data)} bytes, not a multiple of 4", place=place)
    return "".join(f"{word:08x}\n" for word in np.frombuffer(data, "<u4").tolist())
