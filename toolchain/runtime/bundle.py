"""A model in one file: manifest, host models, programs and constants, the same bytes for the same model."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from toolchain.runtime.archive import digest, read_archive, write_archive
from toolchain.runtime.contents import Bundle, Manifest
from toolchain.runtime.plan_checks import plan_faults
from toolchain.spec.errors import fail
from toolchain.spec.typed_json import MistypedError, from_json, to_json

MANIFEST = "manifest.json"
FORMAT, VERSION = "tilewright-bundle", 7
MAX_MANIFEST = 1 << 25


@dataclass(frozen=True)
class Member:
    """A member as the manifest describes it."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class _File:
    """manifest.json."""

    format: str
    version: int
    members: Mapping[str, Member]
    content: Manifest


def write_bundle(path: Path, bundle: Bundle) -> None:
    """Writes a bundle whole or not at all, manifest first. Raises UserError E0005, E1103, and E1104 for a plan that cannot be run."""
    _check_plan(bundle, str(path))
    write_archive(path, {MANIFEST: manifest_text(bundle).encode(), **dict(sorted(bundle.members.items()))})


def manifest_text(bundle: Bundle) -> str:
    """manifest.json."""
    sums = {name: Member(len(data), digest(data)) for name, data in bundle.members.items()}
    return json.dumps(to_json(_File(FORMAT, VERSION, sums, bundle.manifest)), indent=1) + "\n"


def read_bundle(path: Path) -> Bundle:
    """Raises UserError E0001 (cannot be read), E1101 (no zip), E1102 (members), E1103 (too large), E1104 (manifest), E1106 (damaged member)."""
    members, place = read_archive(path), str(path)
    text = members.pop(MANIFEST, None)
    if text is None:
        raise fail("E1102", f"the member '{MANIFEST}' is missing", place=place)
    file = _parse(text, place)
    for name in sorted(members.keys() ^ file.members.keys()):
        message = f"the member '{name[:80]}' is missing" if name in file.members else f"the member '{name}' is not in the manifest"
        raise fail("E1102", message, place=place)
    for name, said in file.members.items():
        if len(members[name]) != said.bytes or digest(members[name]) != said.sha256:
            raise fail("E1106", f"the member '{name}' is damaged: its bytes are not those that the manifest says", place=place)
    bundle = Bundle(file.content, members)
    _check_plan(bundle, place)
    return bundle


def _parse(text: bytes, place: str) -> _File:
    if len(text) > MAX_MANIFEST:
        raise fail("E1103", f"{MANIFEST} is larger than {MAX_MANIFEST} bytes", place=place)
    try:
        value: Any = json.loads(text, parse_constant=_refuse, object_pairs_hook=_object)
    except (ValueError, RecursionError):
        raise fail("E1104", f"{MANIFEST} is not JSON", place=place) from None
    held = cast("dict[str, Any]", value if isinstance(value, dict) else {})
    if held.get("format") != FORMAT:
        raise fail("E1104", f'{MANIFEST} does not say "format": "{FORMAT}"', place=place)
    if held.get("version") != VERSION:
        said = json.dumps(held.get("version"))[:20]
        raise fail("E1104", f"the bundle's version is {said}, this program reads {VERSION}", hint="build the model again", place=place)
    try:
        return from_json(_File, held)
    except (MistypedError, RecursionError) as error:
        raise fail("E1104", f"{MANIFEST}: {error}", place=place) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Raises ValueError for a key that is there twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError
    return found


def _refuse(text: str) -> None:
    raise ValueError(text)


def _check_plan(bundle: Bundle, place: str) -> None:
    faults: Iterator[str] = plan_faults(bundle)
    for fault in faults:
        raise fail("E1104", f"{MANIFEST}: {fault}", place=place)
