"""`tilewright bundle`: a bundle from anywhere, of one length or several, is shown, run and disassembled; the folder of its build is not needed."""

import argparse
import io
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toolchain.commands.machine import sign
from toolchain.spec.errors import UserError, fail, one_line
from toolchain.spec.files import write_atomic

if TYPE_CHECKING:
    from toolchain.runtime.contents import Bundle, Interface, RegionProgram, Target
    from toolchain.runtime.executor import Executor, Outcome
    from toolchain.runtime.length_executor import LengthExecutor
    from toolchain.runtime.lengths import Bucket, LengthBundle
    from toolchain.spec.arrays import Array
    from toolchain.spec.model import Machine

LINE = 10
"""Letters of the name of a fact."""
FIRST = 4
"""Numbers of an output that are printed."""


def show(arguments: argparse.Namespace) -> None:
    """Prints its manifest, and its times by the costs of the machine, where that is known. Raises UserError E0001, E11xx for the bundle."""
    from toolchain.runtime.bundle import MANIFEST, digest, manifest_text
    from toolchain.runtime.bundle_checks import trusted_keys
    from toolchain.runtime.lengths import LengthBundle, read_any

    bundle = read_any(Path(arguments.bundle), trusted_keys())
    if isinstance(bundle, LengthBundle):
        show_lengths(bundle, arguments)
        return
    machines, missing = _machines(bundle, arguments)
    print(f"{one_line(bundle.manifest.model)} on {' + '.join(map(_label, bundle.manifest.targets))}")
    for name, text in _facts(bundle, machines, arguments.bundle, bool(trusted_keys())):
        print(f"  {name:{LINE}} {text}")
    if missing:
        print(f"  {'time':{LINE}} {missing}")
    if arguments.operations:
        from toolchain.report.bundles import bundle_operations

        with sign("timing"):
            table = bundle_operations(bundle, machines, arguments.bundle, sys.stdout.isatty(), shutil.get_terminal_size().columns)
        print(f"\n{table}", end="")
    if arguments.hashes:
        print(f"  {bundle.manifest.source or '-' * 64}  the model's ONNX file")
        for name, data in {MANIFEST: manifest_text(bundle).encode(), **bundle.members}.items():
            print(f"  {digest(data)}  {name}")


def _machines(bundle: "Bundle", arguments: argparse.Namespace) -> "tuple[Mapping[str, Machine], str]":
    """The machines by name, and why there are none: only times and operations need them. Raises as `bundle_machines`."""
    from toolchain.runtime.bundle import bundle_machines

    try:
        return bundle_machines(bundle.manifest.targets, arguments.bundle, arguments.machine, bundle.members), ""
    except UserError as error:
        first = error.diagnostics[0]
        if arguments.machine or arguments.operations or first.code != "E0001":
            raise
        return {}, f"not known: {first.message}; {first.hint}"


def _label(target: "Target") -> str:
    return one_line(f"{target.name}{target.config and f':{target.config}'}")


def _facts(bundle: "Bundle", machines: "Mapping[str, Machine]", place: str, signed: bool) -> Iterator[tuple[str, str]]:
    from toolchain.report.summary import state_traffic
    from toolchain.report.summary_text import states_text
    from toolchain.report.tables import counted, scaled
    from toolchain.runtime.contents import RegionProgram, step_of
    from toolchain.runtime.timing import modelled

    manifest = bundle.manifest
    yield "made by", f"tilewright {manifest.toolchain}"
    for target in manifest.targets:
        yield "for", f"{_label(target)}, architecture {target.fingerprint}"
        if target.name in machines and machines[target.name].path.startswith(f"{place}/"):
            yield "described", f"{target.name} by the bundle itself"
    for word, entries in (("takes", manifest.inputs), ("gives", manifest.outputs)):
        yield from ((word, f"{one_line(entry.name)} {entry.dtype} {_shape(entry)}") for entry in entries)
    for run in (step_of(manifest, step) for step in manifest.plan):
        if isinstance(run, RegionProgram):
            yield "step", _region_text(run)
        else:
            yield "step", f"host: {counted(sum(work.nodes for work in run.work.values()), 'node')}"
    if machines:
        times = modelled(machines, manifest)
        parts = {"machine": times.execute_ms, "host": times.host_ms, "transfer": times.transfer_ms, "launch": times.launch_ms}
        told = ", ".join(f"{name} {ms:.3f} ms" for name, ms in parts.items() if ms is not None)
        yield "time", f"{times.total_ms:.3f} ms for {counted(times.samples, 'sample')} by the machine's costs: {told}"
    if machines and (traffic := state_traffic(machines, manifest)):
        yield "states", states_text(traffic)
        yield "a step", f"{traffic.step.total_ms:.3f} ms by the machine's costs, with states where they are"
    yield "members", f"{len(bundle.members)}, {scaled(sum(map(len, bundle.members.values())), 'B')}"
    if signed:
        yield "signed", "by a key that is trusted here"


def _region_text(region: "RegionProgram") -> str:
    kind = "C" if region.function else "a graph" if region.whole else "a program"
    return f"{region.name} on {region.target}: {kind}, {region.cycles:,.0f} cycles"


def _shape(entry: "Interface") -> str:
    return "of any shape" if entry.shape is None else str(list(entry.shape))


def run(arguments: argparse.Namespace) -> None:
    """Runs samples of a file, or steps of a model with states, and prints the results, or writes them; with --expected also how close they are to
    those of a file.

    Raises UserError E0001, E0808 for the files, E11xx for the bundle and inputs, E1113 for C without --native, E07xx where the device fails."""
    import numpy as np

    from toolchain.runtime.length_executor import LengthExecutor, load_any

    with sign("loading"):
        executor = load_any(Path(arguments.bundle), arguments.machine, native=arguments.native)
    path = Path(arguments.input)
    with sign("running"):
        if isinstance(executor, LengthExecutor):
            outcome = executor.run(length_inputs(path, executor))
        elif executor.manifest.states:
            outcome = _stepped(path, executor)
        else:
            outcome = executor.run(_inputs(path, executor.manifest.inputs))
    for name, array in outcome.outputs.items():
        print(f"{one_line(name)}: {array.dtype} {list(array.shape)}, begins with {np.asarray(array).ravel()[:FIRST].tolist()}")
    what = "steps" if executor.manifest.states else "samples"
    print(f"{outcome.samples} {what} in {outcome.runs} runs; {outcome.cycles:,.0f} cycles by the model")
    if arguments.expected:
        from toolchain.report.bundles import expected_lines

        print(*expected_lines(outcome.outputs, Path(arguments.expected)), sep="\n")
    if arguments.output:
        out = io.BytesIO()
        np.savez(out, allow_pickle=False, **outcome.outputs)
        write_atomic(Path(arguments.output), out.getvalue())


def _stepped(path: Path, executor: "Executor") -> "Outcome":
    """One sequence: the samples of a file are its steps, states are the runtime's."""
    from toolchain.runtime.step_session import joined_steps, open_steps

    session = open_steps(executor)
    return joined_steps(session.run(_inputs(path, session.inputs)))


def _inputs(path: Path, inputs: "Sequence[Interface]") -> "dict[str, Array]":
    """All samples of an .npz file, whose arrays have the inputs' names, one behind the other."""
    for entry in inputs:
        if entry.shape is None or min(entry.shape, default=1) < 1:
            raise fail("E1108", f"the input '{entry.name}' has no size of its own, so no file holds samples of it")

    return recorded_inputs(path, {entry.name: (entry.shape or (), entry.dtype) for entry in inputs})


def disassemble(arguments: argparse.Namespace) -> None:
    """Prints the assembly of a region, or writes it. Raises UserError E0001, E11xx for the bundle, E0003 for a region without instructions."""
    from toolchain.isa.assembly import disassemble as text_of
    from toolchain.report.bundles import timed_regions
    from toolchain.runtime.bundle import trusted_bundle
    from toolchain.runtime.open_region import region_image

    path = Path(arguments.bundle)
    bundle, machines = trusted_bundle(path, arguments.machine)
    regions = timed_regions(bundle, machines)
    name = arguments.region or next(iter(regions), "")
    if name not in regions:
        raise fail("E0003", f"the bundle has no program '{name}'", hint=f"known: {', '.join(regions) or 'none'}")
    with sign("disassembling"):
        text = text_of(region_image(bundle, regions[name], machines[regions[name].target], str(path)).program)
    if arguments.output:
        write_atomic(Path(arguments.output), text.encode())
    else:
        sys.stdout.write(text)


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
    from toolchain.graph.preparation import text_of
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
    found = recorded_samples(Recorded(path, {name: name for name in inputs}, 1.0, None, raw=False, finite=False), inputs)
    return {name: samples.reshape(-1, *samples.shape[2:]) if samples.ndim > 1 else samples for name, samples in found.items()}


def pick(arguments: argparse.Namespace) -> None:
    """Writes a bundle of one length.

    Raises UserError E0001, E0005, E11xx for the bundle, E1202 for a length that is written wrongly, E1131 for one that it has not.
    """
    from toolchain.graph.preparation import text_of
    from toolchain.runtime.bundle import write_bundle
    from toolchain.runtime.bundle_checks import trusted_keys
    from toolchain.runtime.lengths import read_lengths
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
