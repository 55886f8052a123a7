"""A zip that is the same bytes for the same members, and one that may be read wherever it comes from.

Members are stored, never compressed: nothing can grow, and no compressor's version shows in the bytes. Names are flat, of a few fixed
forms; everything is measured before it is read.
"""

import hashlib
import os
import re
import zipfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from toolchain.spec.errors import UserError, fail
from toolchain.spec.files import replacing

MAX_BYTES = 1 << 31
MAX_MEMBERS = 1 << 14
NAME = re.compile(r"(manifest\.json|host(0|[1-9][0-9]{0,4})\.onnx|region(0|[1-9][0-9]{0,4})\.(two|c|json|yaml|bin)|data-[0-9a-f]{64}\.bin)\Z")
_DATE = (1980, 1, 1, 0, 0, 0)


def digest(data: bytes) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(data).hexdigest()


def data_name(data: bytes) -> str:
    """The member that holds a constant: equal bytes have one name."""
    return f"data-{digest(data)}.bin"


def write_archive(path: Path, members: Mapping[str, bytes]) -> None:
    """Writes the members in their order, the file whole or not at all. Raises UserError E0005, E1103 for what is too large to be read again."""
    total = sum(map(len, members.values()))
    if total > MAX_BYTES or len(members) > MAX_MEMBERS:
        raise _too_large(f"{total} bytes in {len(members)} members", str(path))
    with replacing(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            entry = zipfile.ZipInfo(name, _DATE)
            entry.create_system, entry.external_attr = 3, 0o100644 << 16
            archive.writestr(entry, data)


def read_archive(path: Path) -> dict[str, bytes]:
    """Every member by name. Raises UserError E0001, E1101 (no zip, or a damaged one), E1102 (members that do not belong), E1103 (sizes)."""
    place = str(path)
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_BYTES:
                raise _too_large(f"{size} bytes", place)
            with zipfile.ZipFile(file) as archive:
                _check_members(archive, size, place)
                return {entry.filename: archive.read(entry) for entry in archive.infolist()}
    except (zipfile.BadZipFile, EOFError, ValueError, OverflowError, NotImplementedError, RuntimeError):
        raise fail("E1101", "not a bundle: it is no zip archive, or a damaged one", place=place) from None
    except OSError as error:
        raise fail("E0001", f"cannot read the bundle: {error.strerror or error}", place=place) from None


def _check_members(archive: zipfile.ZipFile, size: int, place: str) -> None:
    entries = archive.infolist()
    if len(entries) > MAX_MEMBERS:
        raise _too_large(f"{len(entries)} members", place)
    often = Counter(entry.filename for entry in entries)
    for entry in entries:
        name = entry.filename
        if not NAME.match(name):
            raise fail("E1102", f"the member {name[:80]!a} does not belong into a bundle", place=place)
        if often[name] > 1:
            raise fail("E1102", f"the member '{name}' is there {often[name]} times", place=place)
        if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1 or entry.file_size != entry.compress_size:
            raise fail("E1102", f"the member '{name}' is compressed or encrypted", place=place)
    if sum(entry.file_size for entry in entries) > size:
        raise fail("E1102", "the members overlap: together they have more bytes than the file", place=place)


def _too_large(what: str, place: str) -> UserError:
    return fail("E1103", f"the bundle is too large: {what}; at most {MAX_BYTES} bytes in {MAX_MEMBERS} members", place=place)
