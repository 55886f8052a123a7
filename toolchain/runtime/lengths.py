"""A model in several lengths in one file: the bundle of each, members of equal content once.

A bundle of this kind has a manifest of its own form, with a plan for each length; all else is as in a bundle of one length.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import onnx

from toolchain.graph.files import INLINE_BYTES
from toolchain.graph.preparation import LengthAxis, text_of
from toolchain.runtime.bundle import (
    MANIFEST,
    SEVERAL,
    Member,
    bundle_of,
    check_members,
    data_name,
    digest,
    manifest_json,
    read_archive,
    write_archive,
)
from toolchain.runtime.bundle_checks import plan_faults
from toolchain.runtime.contents import Bundle, HostSegment, Interface, Manifest, RegionProgram
from toolchain.spec.errors import fail
from toolchain.spec.typed_json import MistypedError, from_json, to_json

VERSION = 1
MOST = 64
"""Lengths of one file."""


@dataclass(frozen=True)
class Bucket:
    """A length, by dimension, and its plan."""

    sizes: Mapping[str, int]
    content: Manifest


@dataclass(frozen=True)
class Lengths:
    """inputs, outputs: the axes that have lengths. refusal: why a sample of another length is not filled up with zeros; empty where it is.

    beyond: the member with the model's own file, which runs samples that no length takes; empty where these are refused.
    buckets: by the elements that they hold, the smallest first.
    """

    inputs: tuple[LengthAxis, ...]
    outputs: tuple[LengthAxis, ...]
    refusal: str
    beyond: str
    buckets: tuple[Bucket, ...]


@dataclass(frozen=True)
class LengthBundle:
    """members: bytes by name, of all lengths."""

    lengths: Lengths
    members: Mapping[str, bytes]

    def bundle(self, bucket: Bucket) -> Bundle:
        """The bundle of one length; its members may be more than it needs."""
        return Bundle(bucket.content, self.members)


@dataclass(frozen=True)
class _File:
    """manifest.json."""

    format: str
    version: int
    members: Mapping[str, Member]
    lengths: Lengths


def join_bundles(
    inputs: Sequence[LengthAxis], bundles: Sequence[tuple[Mapping[str, int], Bundle]], refusal: str, whole: onnx.ModelProto | None = None
) -> LengthBundle:
    """bundles: of every length. refusal: why samples are not filled up, empty where they may be. whole: the model's own file, its weights inside, for
    samples that no length takes.
    """
    members, buckets = dict[str, bytes](), list[Bucket]()
    hosts = regions = 0
    for sizes, bundle in sorted(bundles, key=lambda each: (prod(each[0].values()), tuple(each[0].values()))):
        content, renamed = _renumbered(bundle.manifest, hosts, regions)
        members |= {renamed.get(name, name): data for name, data in bundle.members.items()}
        buckets.append(Bucket(dict(sizes), content))
        hosts, regions = hosts + len(content.hosts), regions + len(content.regions)
    outputs, unclear = output_axes(buckets)
    beyond = f"host{hosts}.onnx" if whole else ""
    members |= _outside(whole, beyond) if whole else {}
    return LengthBundle(Lengths(tuple(inputs), outputs, unclear or refusal, beyond, tuple(buckets)), members)


def _outside(whole: onnx.ModelProto, name: str) -> dict[str, bytes]:
    """The model as a member of this name, and its large constants as others, which segments of hosts may read as well."""
    model, found = onnx.ModelProto(), dict[str, bytes]()
    model.CopyFrom(whole)
    for tensor in model.graph.initializer:
        if len(tensor.raw_data) > INLINE_BYTES:
            data = tensor.raw_data
            tensor.ClearField("raw_data")
            tensor.data_location = onnx.TensorProto.EXTERNAL
            places = {"location": data_name(data), "offset": "0", "length": str(len(data))}
            tensor.external_data.extend(onnx.StringStringEntryProto(key=key, value=value) for key, value in places.items())
            found[data_name(data)] = data
    return {name: model.SerializeToString(deterministic=True), **found}


def _renumbered(manifest: Manifest, hosts: int, regions: int) -> tuple[Manifest, dict[str, str]]:
    """The plan with members that count on from those of other lengths, and their new names."""
    renamed: dict[str, str] = {}

    def count_on(name: str, prefix: str, before: int) -> str:
        if name:
            number, dot, end = name.removeprefix(prefix).partition(".")
            renamed[name] = f"{prefix}{int(number) + before}{dot}{end}"
        return renamed.get(name, "")

    def host(segment: HostSegment) -> HostSegment:
        return replace(segment, model=count_on(segment.model, "host", hosts))

    def region(program: RegionProgram) -> RegionProgram:
        binary, origins, schedule = (count_on(name, "region", regions) for name in (program.binary, program.origins, program.schedule))
        return replace(program, binary=binary, origins=origins, schedule=schedule)

    content = replace(manifest, hosts=tuple(map(host, manifest.hosts)), regions=tuple(map(region, manifest.regions)))
    return content, renamed


def output_axes(buckets: Sequence[Bucket]) -> tuple[tuple[LengthAxis, ...], str]:
    """The axes of outputs whose size is a length, and the first that depends on lengths otherwise, in words; empty where none does."""
    found, unclear = list[LengthAxis](), ""
    for number, entry in enumerate(buckets[0].content.outputs):
        each = [bucket.content.outputs[number] for bucket in buckets]
        shapes = [one.shape for one in each]
        if any(one.name != entry.name or one.shape is None or len(one.shape) != len(entry.shape or ()) for one in each):
            unclear = unclear or f"the output '{entry.name}' has no fixed rank"
            continue
        for axis, sizes in enumerate(zip(*(shape or () for shape in shapes), strict=True)):
            name = next(
                (name for name in buckets[0].sizes if all(size == bucket.sizes[name] for size, bucket in zip(sizes, buckets, strict=True))), ""
            )
            if name:
                found.append(LengthAxis(entry.name, axis, name))
            elif len({*sizes}) > 1 or sizes[0] < 0:
                told = ", ".join("?" if size < 0 else str(size) for size in sizes)
                unclear = unclear or f"axis {axis} of the output '{entry.name}' has the sizes {told}, which are not the lengths"
    return tuple(found), unclear


def write_lengths(path: Path, joined: LengthBundle) -> None:
    """Writes the file whole or not at all, manifest first. Raises UserError E0005, E1103, and E1104 for a plan that cannot be run."""
    _check(joined, str(path))
    write_archive(path, {MANIFEST: lengths_text(joined).encode(), **dict(sorted(joined.members.items()))})


def lengths_text(joined: LengthBundle) -> str:
    """manifest.json."""
    sums = {name: Member(len(data), digest(data)) for name, data in joined.members.items()}
    return json.dumps(to_json(_File(SEVERAL, VERSION, sums, joined.lengths)), indent=1) + "\n"


def read_lengths(path: Path, keys: Sequence[Path] = ()) -> LengthBundle | None:
    """As `read_any`; None for a bundle of one length."""
    found = read_any(path, keys)
    return found if isinstance(found, LengthBundle) else None


def read_any(path: Path, keys: Sequence[Path] = ()) -> Bundle | LengthBundle:
    """A bundle of one length or of several. keys: files of public keys, one of which has to have signed it. Raises UserError as `read_bundle`."""
    members, place = read_archive(path, keys), str(path)
    held = manifest_json(members.pop(MANIFEST, None), place)
    return _several(members, held, place) if held.get("format") == SEVERAL else bundle_of(members, held, place)


def _several(members: Mapping[str, bytes], held: Mapping[str, Any], place: str) -> LengthBundle:
    if held.get("version") != VERSION:
        text = f"the bundle's version of several lengths is {str(held.get('version'))[:20]}, this program reads {VERSION}"
        raise fail("E1104", text, hint="build the model again", place=place)
    try:
        file = from_json(_File, held)
    except (MistypedError, RecursionError) as error:
        raise fail("E1104", f"{MANIFEST}: {error}", place=place) from None
    check_members(members, file.members, place)
    joined = LengthBundle(file.lengths, members)
    _check(joined, place)
    return joined


def _check(joined: LengthBundle, place: str) -> None:
    for fault in _faults(joined):
        raise fail("E1104", f"{MANIFEST}: {fault}", place=place)


def _faults(joined: LengthBundle) -> Iterator[str]:
    """Faults of the lengths and of every plan, in words."""
    lengths = joined.lengths
    names = {axis.name for axis in lengths.inputs}
    if lengths.beyond and lengths.beyond not in joined.members:
        yield f"there is no member '{lengths.beyond[:80]}'"
    if not 1 <= len(lengths.buckets) <= MOST or not names:
        yield "it has no lengths, or too many"
        return
    for bucket in lengths.buckets:
        if {*bucket.sizes} != names or min(bucket.sizes.values()) < 1:
            yield f"the sizes of a length are not those of {', '.join(sorted(names))[:80]}"
            return
        yield from plan_faults(joined.bundle(bucket))
        for axes, entries in ((lengths.inputs, bucket.content.inputs), (lengths.outputs, bucket.content.outputs)):
            yield from _axis_faults(axes, {entry.name: entry for entry in entries}, bucket)


def _axis_faults(axes: Sequence[LengthAxis], entries: Mapping[str, Interface], bucket: Bucket) -> Iterator[str]:
    for axis in axes:
        shape = entries[axis.tensor].shape if axis.tensor in entries else None
        if not shape or not 0 <= axis.axis < len(shape) or shape[axis.axis] != bucket.sizes.get(axis.name):
            yield f"axis {axis.axis} of '{axis.tensor[:80]}' is not of the size '{axis.name[:80]}' at {text_of(bucket.sizes)[:80]}"
