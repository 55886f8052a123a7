"""A model in one file: manifest, host models, programs and constants in a zip that is the same bytes for the same model; and its machines.

Members are stored, never compressed: a file cannot grow when it is read, and no compressor's version shows in the bytes. Names are flat, of a few
fixed forms; sizes are checked before members are read.
"""

import hashlib
import io
import json
import os
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from toolchain.isa.check_machine import check_machine, load_checked_machine
from toolchain.runtime.bundle_checks import check_signature, plan_faults, trusted_keys
from toolchain.runtime.contents import Bundle, Manifest, Target, description_name
from toolchain.runtime.device import check_map
from toolchain.spec.errors import UserError, fail
from toolchain.spec.files import replacing
from toolchain.spec.fingerprint import fingerprint, section_hashes
from toolchain.spec.load import list_targets, load_text, read_text
from toolchain.spec.model import Machine
from toolchain.spec.typed_json import MistypedError, from_json, to_json

MACHINE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
MOST = 3
"""Differences that a message names."""


def target_of(machine: Machine) -> Target:
    """A machine as a bundle records it."""
    return Target(machine.name, machine.config, dict(machine.params), fingerprint(machine), section_hashes(machine)["timing"], machine.host)


Given = Machine | str | Sequence[Machine | str] | None
"""Machines for a bundle, one or one for each of its targets in their order: described, or as names or paths of files; None: from the search path, or,
where that has none of the name, as the bundle itself describes it."""
OWN = "bundle"
"""In place of a machine's name: as the bundle itself describes it."""
NOTHING: Mapping[str, bytes] = {}


def bundle_machines(targets: Sequence[Target], place: str, given: Given = None, members: Mapping[str, bytes] = NOTHING) -> dict[str, Machine]:
    """The machine of each target by its name. members: of the bundle. Raises as `bundle_machine`, and E1105 for another number of machines than the
    bundle has."""
    each: Machine | str | None = OWN if given in (OWN, [OWN]) else None
    found = [each] * len(targets) if each or not given else [given] if isinstance(given, Machine | str) else [*given]
    if len(found) != len(targets):
        names = ", ".join(target.name[:80] for target in targets)
        raise fail(
            "E1105", f"the bundle is for {len(targets)} machines ({names}), given are {len(found)}", hint="give them in this order", place=place
        )
    described = [members.get(description_name(number)) for number in range(len(targets))]
    return {target.name: bundle_machine(target, place, machine, text) for target, machine, text in zip(targets, found, described, strict=True)}


def bundle_machine(target: Target, place: str, machine: Machine | str | None = None, description: bytes | None = None) -> Machine:
    """The machine of that name and configuration from the search path, from the file of a path, or from the description in the bundle, with the
    bundle's parameters; or the one given. The host's costs are the bundle's.

    Raises UserError E0001 where there is none, E1104 for a name or a description that cannot be one, E1105 where it was made for another
    architecture, E01xx and E02xx for mistakes in a description.
    """
    found = machine if isinstance(machine, Machine) else _found(target, place, machine, description)
    if fingerprint(found) == target.fingerprint:
        return found if found.host == target.host else replace(found, host=target.host)
    there, here = (f"{name}:{config}" if config else name for name, config in ((target.name, target.config), (found.name, found.config)))
    names = sorted({*target.params, *found.params})
    values = [(name, target.params.get(name, "not"), found.params.get(name, "not")) for name in names]
    different = "; ".join([f"{name} is {a} there, {b} here" for name, a, b in values if a != b][:MOST])
    raise fail(
        "E1105",
        f"the bundle was made for another form of {there[:80]}" if there == here else f"the bundle was made for {there[:80]}, this is {here}",
        hint=_remedy(different if target.name == found.name else "", description is not None and not found.path.startswith(f"{place}/")),
        place=place,
    )


def _remedy(different: str, described: bool) -> str:
    own = f"--machine {OWN} takes the description that it brings" if described else ""
    return "; ".join(filter(None, (different, own))) or "build the model again"


def _found(target: Target, place: str, given: str | None, description: bytes | None) -> Machine:
    if given == OWN and description is None:
        text = f"the bundle brings no description of {target.name[:80]}"
        raise fail("E0001", text, hint="tilewright export bundle writes one that does, where the machine is known", place=place)
    if description is not None and (given == OWN or (given is None and target.name not in list_targets())):
        return _described(target, place, description)
    return _searched(target, place, given or target.name)


def _described(target: Target, place: str, description: bytes) -> Machine:
    """Without the files beside a machine's own: a build needs them, a run does not."""
    try:
        text = description.decode()
    except UnicodeDecodeError as error:
        raise fail("E1104", f"the description of {target.name[:80]} is not UTF-8 text at byte {error.start:#x}", place=place) from None

    def load(overrides: Mapping[str, str]) -> Machine:
        machine = load_text(text, f"{place}/{target.name[:80]}.yaml", target.config, overrides)
        check_machine(machine)
        return machine

    return _with_params(target, place, load({}), load)


def _searched(target: Target, place: str, given: str) -> Machine:
    """Parameters that differ from the configuration's are overridden; derived ones follow from them."""
    if not MACHINE_NAME.match(target.name):
        raise fail("E1104", f"{target.name[:80]!a} is not a valid machine name", place=place)
    return _with_params(target, place, _plain(target, place, given), lambda overrides: load_checked_machine(given, target.config, overrides))


def _with_params(target: Target, place: str, plain: Machine, load: Callable[[Mapping[str, str]], Machine]) -> Machine:
    """plain: without the bundle's parameters. load: the same with others."""
    chosen = {(param, number): choice for (param, choice), number in plain.choices.items()}
    wrong = {name: value for name, value in target.params.items() if name in plain.settable and plain.params[name] != value}
    if not wrong:
        return plain
    try:
        return load({name: chosen.get((name, value), str(value)) for name, value in wrong.items()})
    except UserError as error:
        message = f"the bundle was made for a {target.name} that cannot be: {error.diagnostics[0].message}"
        raise fail("E1105", message, hint="build the model again", place=place) from None


def _plain(target: Target, place: str, given: str) -> Machine:
    """Without the bundle's parameters."""
    try:
        return load_checked_machine(given, target.config)
    except UserError as error:
        if given != target.name or [each.code for each in error.diagnostics] != ["E0001"]:
            raise
        hint = f"put {target.name}.yaml into targets/, or name the file: --machine FILE.yaml; a bundle that tilewright export bundle wrote needs none"
        raise fail("E0001", f"the bundle was made for {target.name}, which is not among the machines here", hint=hint, place=place) from None


MAX_BYTES = 1 << 31
MAX_MEMBERS = 1 << 14
COUNT = "(0|[1-9][0-9]{0,4})"
NAME = re.compile(rf"(manifest\.json|machine{COUNT}\.yaml|host{COUNT}\.onnx|region{COUNT}\.(two|c|json|yaml|bin)|data-[0-9a-f]{{64}}\.bin)\Z")
_DATE = (1980, 1, 1, 0, 0, 0)


def digest(data: bytes) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(data).hexdigest()


def data_name(data: bytes) -> str:
    """The member that holds a constant: equal bytes have one name."""
    return f"data-{digest(data)}.bin"


def write_archive(path: Path, members: Mapping[str, bytes]) -> None:
    """Writes the members in their order, the file whole or not at all. Raises UserError E0005, E1103 for a member too large to be read again."""
    total = sum(map(len, members.values()))
    if total > MAX_BYTES or len(members) > MAX_MEMBERS:
        raise _too_large(f"{total} bytes in {len(members)} members", str(path))
    with replacing(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            entry = zipfile.ZipInfo(name, _DATE)
            entry.create_system, entry.external_attr = 3, 0o100644 << 16
            archive.writestr(entry, data)


def read_archive(path: Path, keys: Sequence[Path] = ()) -> dict[str, bytes]:
    """Every member by name. keys: files of public keys, one of which has to have signed the file.

    Raises UserError E0001, E1101 (no zip, or a damaged one), E1102 (members that do not belong), E1103 (sizes), E1129 (signature).
    """
    place = str(path)
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_BYTES:
                raise _too_large(f"{size} bytes", place)
            with zipfile.ZipFile(_signed(path, file.read(), keys) if keys else file) as archive:
                _check_members(archive, size, place)
                return {entry.filename: archive.read(entry) for entry in archive.infolist()}
    except (zipfile.BadZipFile, EOFError, ValueError, OverflowError, NotImplementedError, RuntimeError):
        raise fail("E1101", "not a bundle: it is no zip archive, or a damaged one", place=place) from None
    except OSError as error:
        raise fail("E0001", f"cannot read the bundle: {error.strerror or error}", place=place) from None


def _signed(path: Path, data: bytes, keys: Sequence[Path]) -> io.BytesIO:
    """The bytes that were checked are those that are read."""
    check_signature(path, data, keys)
    return io.BytesIO(data)


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


MANIFEST = "manifest.json"
FORMAT, VERSION = "tilewright-bundle", 9
SEVERAL = "tilewright-lengths"
"""The format of a bundle of several lengths, which `runtime.lengths` reads."""
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


def trusted_bundle(path: Path, given: Given = None) -> tuple[Bundle, dict[str, Machine]]:
    """A bundle from anywhere and its machines by name, whose memories its regions fit. Raises as `read_bundle`, for the user's keys, as
    `bundle_machines` and as `check_map`."""
    bundle = read_bundle(path, trusted_keys())
    machines = bundle_machines(bundle.manifest.targets, str(path), given, bundle.members)
    for region in (region for region in bundle.manifest.regions if not region.whole):
        check_map(region.name, machines[region.target], region.map, bundle.held(region.constants))
    return bundle, machines


def described_bundle(bundle: Bundle, machines: Mapping[str, Machine], place: str) -> Bundle:
    """The bundle with the text of each machine's file inside, so that it needs none. machines: by name.

    Raises UserError E0001 for a file that cannot be read, E1105 where one has changed meanwhile.
    """
    texts = {description_name(n): read_text(Path(machines[each.name].path)).encode() for n, each in enumerate(bundle.manifest.targets)}
    bundle_machines(bundle.manifest.targets, place, OWN, texts)
    return replace(bundle, members={**bundle.members, **texts})


def manifest_text(bundle: Bundle) -> str:
    """manifest.json."""
    sums = {name: Member(len(data), digest(data)) for name, data in bundle.members.items()}
    return json.dumps(to_json(_File(FORMAT, VERSION, sums, bundle.manifest)), indent=1) + "\n"


def read_bundle(path: Path, keys: Sequence[Path] = ()) -> Bundle:
    """keys: files of public keys, one of which has to have signed the bundle; none: it needs no signature.

    Raises UserError E0001 (cannot be read), E1101 (no zip), E1102 (members), E1103 (too large), E1104 (manifest), E1106 (damaged member), E1129
    (signature).
    """
    members, place = read_archive(path, keys), str(path)
    return bundle_of(members, manifest_json(members.pop(MANIFEST, None), place), place)


def bundle_of(members: Mapping[str, bytes], held: Mapping[str, Any], place: str) -> Bundle:
    """members: all but the manifest. held: the manifest as plain data. Raises UserError as `read_bundle`, of the members and the manifest."""
    file = _parse(held, place)
    check_members(members, file.members, place)
    bundle = Bundle(file.content, members)
    _check_plan(bundle, place)
    return bundle


def check_members(members: Mapping[str, bytes], said: Mapping[str, Member], place: str) -> None:
    """said: by the manifest. Raises UserError E1102 for a member too many or too few, E1106 for another content."""
    for name in sorted(members.keys() ^ said.keys()):
        message = f"the member '{name[:80]}' is missing" if name in said else f"the member '{name}' is not in the manifest"
        raise fail("E1102", message, place=place)
    for name, each in said.items():
        if len(members[name]) != each.bytes or digest(members[name]) != each.sha256:
            raise fail("E1106", f"the member '{name}' is damaged: its bytes are not those that the manifest says", place=place)


def manifest_json(text: bytes | None, place: str) -> dict[str, Any]:
    """The manifest as plain data; empty where it is no object. Raises UserError E1102 where there is none, E1103, E1104 for no JSON."""
    if text is None:
        raise fail("E1102", f"the member '{MANIFEST}' is missing", place=place)
    if len(text) > MAX_MANIFEST:
        raise fail("E1103", f"{MANIFEST} is larger than {MAX_MANIFEST} bytes", place=place)
    try:
        value: Any = json.loads(text, parse_constant=_refuse, object_pairs_hook=_object)
    except (ValueError, RecursionError):
        raise fail("E1104", f"{MANIFEST} is not JSON", place=place) from None
    return cast("dict[str, Any]", value if isinstance(value, dict) else {})


def _parse(held: Mapping[str, Any], place: str) -> _File:
    if held.get("format") == SEVERAL:
        hint = f"take one out: tilewright bundle pick {place} NAME:SIZE -o ONE.bundle"
        raise fail("E1130", "this bundle has several lengths, and one is needed", hint=hint, place=place)
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
