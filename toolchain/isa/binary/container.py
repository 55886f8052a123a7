"""The object container: a zip of `manifest.json` and one member a stream, the same bytes for the same program.

What is read may come from anywhere: members are stored, never compressed, so nothing can grow; names come from the
manifest's own numbering, never from the archive; everything is measured before it is read.
"""

import hashlib
import io
import json
import re
import zipfile
from collections import Counter
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from toolchain.isa.program import Program
from toolchain.spec.errors import fail
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
    """A container and what errors call it."""

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
    """Raises UserError E0324 that says what differs."""
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
