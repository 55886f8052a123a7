"""Checks the files that a model points to for its weights before any of them is opened."""

import stat
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import onnx

from toolchain.graph.files.tensors import byte_count, constants, is_external, is_whole
from toolchain.spec.errors import UserError, fail


def check_constants(proto: onnx.ModelProto, path: Path) -> None:
    """Raises UserError E0901 (a constant is cut short) or E0902 (external data that is missing, outside, linked or too short)."""
    for name, tensor in constants(proto.graph):
        if is_external(tensor):
            check_external(name, tensor, path)
        elif not is_whole(tensor):
            shape = "x".join(map(str, tensor.dims)) or "scalar"
            raise fail("E0901", f"the constant '{name}' of shape {shape} does not hold as many values as its shape says", place=str(path))


def check_external(name: str, tensor: onnx.TensorProto, path: Path) -> tuple[str, int, int]:
    """Location, offset and length in bytes of one external tensor. Raises UserError E0902."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    size = _file_size(name, location, path)
    wanted = byte_count(tensor)
    offset = _number(name, entries, "offset", 0, path)
    length = _number(name, entries, "length", wanted, path)
    if wanted < 0 or length != wanted:
        raise _refused(name, f"{length} bytes are given, its shape and type need {wanted}", path)
    if offset + length > size:
        raise _refused(name, f"bytes {offset} to {offset + length} are past the end of '{location}' ({size} bytes)", path)
    return location, offset, length


def _number(name: str, entries: Mapping[str, str], key: str, default: int, path: Path) -> int:
    text = entries.get(key, str(default))
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise _refused(name, f"its {key} '{text[:30]}' is not a count of bytes", path)
    return int(text)


def _file_size(name: str, location: str, path: Path) -> int:
    """Every folder on the way is looked at, so no link can lead out of the model's folder."""
    parts = PurePosixPath(location).parts
    if not parts or "\\" in location or "\0" in location or location.startswith("/") or any(part in ("..", ".") or ":" in part for part in parts):
        raise _refused(name, f"'{location}' is not a path inside the model's folder", path)
    place, found = path.parent, path.parent.stat()
    try:
        for part in parts:
            place = place / part
            found = place.lstat()
            if stat.S_ISLNK(found.st_mode):
                raise _refused(name, f"'{location}' goes through a symbolic link", path, "put the file itself beside the model")
    except OSError as error:
        raise _refused(name, f"cannot read '{location}': {error.strerror}", path) from None
    if not stat.S_ISREG(found.st_mode):
        raise _refused(name, f"'{location}' is not a regular file", path)
    if found.st_nlink > 1:
        raise _refused(name, f"'{location}' is a hard link, {found.st_nlink} names share its bytes", path, "copy the file: cp --remove-destination")
    return found.st_size


def _refused(name: str, reason: str, path: Path, hint: str = "") -> UserError:
    return fail("E0902", f"external data of tensor '{name}': {reason}", hint=hint, place=str(path))
