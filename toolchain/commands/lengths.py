"""Bundles of several lengths: shown, given the samples of a file, and taken apart."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from toolchain.spec.errors import fail, one_line

if TYPE_CHECKING:
    from toolchain.runtime.contents import Bundle
    from toolchain.runtime.length_executor import LengthExecutor
    from toolchain.runtime.lengths import Bucket, LengthBundle
    from toolchain.spec.arrays import Array


def show_lengths(joined: "LengthBundle", arguments: argparse.Namespace) -> None:
    """Prints the inputs and outputs of a bundle of several lengths, and the cost of each length. Raises UserError E1130 with --operations."""
    from toolchain.runtime.lengths import lengths_text

    path = Path(arguments.bundle)
    if arguments.operations:
        raise fail("E1130", "--operations is of one length, and this bundle has several", hint=_hint(joined, path), place=str(path))
    print("\n".join(_lines(joined, arguments)))
    if arguments.hashes:
        from toolchain.runtime.bundle import MANIFEST, digest

        for name, data in {MANIFEST: lengths_text(joined).encode(), **joined.members}.items():
            print(f"  {digest(data)}  {name}")


def _lines(joined: "LengthBundle", arguments: argparse.Namespace) -> list[str]:
    from toolchain.graph.lengths import text_of
    from toolchain.report.tables import scaled
    from toolchain.runtime.bundle import bundle_machines
    from toolchain.runtime.timing import modelled

    lengths, first = joined.lengths, joined.lengths.buckets[0].content
    machines = bundle_machines(first.targets, arguments.bundle, arguments.machine, joined.members)
    found = [f"{one_line(first.model)} on {' + '.join(machine.label for machine in machines.values())}, {len(lengths.buckets)} lengths"]
    for word, axes, entries in (("takes", lengths.inputs, first.inputs), ("gives", lengths.outputs, first.outputs)):
        named = {(axis.tensor, axis.axis): axis.name for axis in axes}
        for entry in entries:
            sizes = ", ".join(named.get((entry.name, axis), str(size)) for axis, size in enumerate(entry.shape or ()))
            found.append(f"  {word:10} {one_line(entry.name)} {entry.dtype} [{one_line(sizes)}]")
    for bucket in lengths.buckets:
        times = modelled(machines, bucket.content)
        found.append(f"  length     {one_line(text_of(bucket.sizes))}: {times.cycles:,.0f} cycles, {times.total_ms:.3f} ms by the machine's costs")
    found.append(f"  between    {one_line(f'not run: {lengths.refusal}') if lengths.refusal else 'filled up with zeros to the next length'}")
    found += ["  beyond     in floating point on the host, by the model's own file"] if lengths.beyond else []
    return [*found, f"  members    {len(joined.members)}, {scaled(sum(map(len, joined.members.values())), 'B')}"]


def _hint(joined: "LengthBundle", path: Path) -> str:
    word = ",".join(f"{name}:{size}" for name, size in joined.lengths.buckets[0].sizes.items())
    return f"take one out: tilewright bundle pick {path} {word} -o ONE.bundle"


def length_inputs(path: Path, executor: "LengthExecutor") -> "dict[str, Array]":
    """All samples of an .npz file, whose arrays have the inputs' names and are of one length. Raises UserError E0001, E0808, E1108."""
    from toolchain.models.samples import file_arrays

    arrays, interfaces = file_arrays(path), dict[str, tuple[tuple[int, ...], str]]()
    for entry in executor.lengths.buckets[0].content.inputs:
        shape, given = list(entry.shape or ()), arrays[entry.name].shape if entry.name in arrays else ()
        more = len(given) - len(shape)  # with or without an axis that counts samples in front of a sample's own
        for axis in executor.lengths.inputs:
            if axis.tensor == entry.name and more in (0, 1):
                shape[axis.axis] = given[axis.axis + more]
        interfaces[entry.name] = tuple(shape), entry.dtype
    return recorded_inputs(path, interfaces)


def recorded_inputs(path: Path, interfaces: Mapping[str, tuple[tuple[int, ...], str]]) -> "dict[str, Array]":
    """All samples of an .npz file, one behind the other. interfaces: shape and type of each input. Raises UserError E0001, E0808."""
    from toolchain.models.model import Input, Recorded
    from toolchain.models.samples import recorded_samples

    inputs = {name: Input(shape, dtype) for name, (shape, dtype) in interfaces.items()}
    found = recorded_samples(Recorded(path, {name: name for name in inputs}, 1.0, None, raw=False), inputs)
    return {name: samples.reshape(-1, *samples.shape[2:]) if samples.ndim > 1 else samples for name, samples in found.items()}


def pick(arguments: argparse.Namespace) -> None:
    """Writes a bundle of one length.

    Raises UserError E0001, E0005, E11xx for the bundle, E1202 for a length that is written wrongly, E1131 for one that it has not.
    """
    from toolchain.graph.lengths import text_of
    from toolchain.runtime.bundle import write_bundle
    from toolchain.runtime.lengths import read_lengths
    from toolchain.runtime.signature import trusted_keys
    from toolchain.tasks.variables import read_sizes

    path, output = Path(arguments.bundle), Path(arguments.output)
    joined, sizes = read_lengths(path, trusted_keys()), dict(read_sizes(arguments.length))
    if joined is None:
        raise fail("E1131", "this bundle has one length, and is one already", place=str(path))
    bucket = next((bucket for bucket in joined.lengths.buckets if bucket.sizes == sizes), None)
    if bucket is None:
        told = "; ".join(text_of(bucket.sizes) for bucket in joined.lengths.buckets)
        raise fail("E1131", f"the bundle has no length {text_of(sizes)}", hint=f"it has {told}", place=str(path))
    write_bundle(output, picked(joined, bucket, str(path)))
    print(f"{output}: {text_of(sizes)}, {output.stat().st_size:,} bytes")


def picked(joined: "LengthBundle", bucket: "Bucket", place: str) -> "Bundle":
    """One length, with the members that it names and no others. Raises UserError E1107 for a host model that points outside the bundle."""
    from toolchain.runtime.contents import Bundle, description_name
    from toolchain.runtime.executor import segment_members

    names = {name for region in bucket.content.regions for name in region.members}
    names |= {description_name(number) for number in range(len(bucket.content.targets))} & joined.members.keys()
    for segment in bucket.content.hosts:
        names |= {segment.model, *segment_members(joined.members[segment.model], joined.members, place)}
    return Bundle(bucket.content, {name: data for name, data in joined.members.items() if name in names})
