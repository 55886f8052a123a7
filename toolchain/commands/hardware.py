"""`tilewright cosim` and `profile`: runs of a bundle's programs on hardware, their memory beside the emulator's and times beside the model's."""

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from toolchain.commands.machine import sign
from toolchain.spec.errors import Source, fail
from toolchain.spec.files import read_limited, write_atomic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from toolchain.report.measured_times import Profile
    from toolchain.runtime.contents import Interface, RegionProgram
    from toolchain.spec.arrays import Array
    from toolchain.verify.cosim import RecordedRun

MOST_BYTES = 1 << 33
"""The most bytes of a memory's image as text."""


def write(arguments: argparse.Namespace) -> None:
    """Runs one sample and writes each region's files.

    Raises UserError E0001, E0002, E11xx for the bundle, E1108 for the sample, E1119 where no region is a program of a machine."""
    from toolchain.verify.cosim import run_files

    folder, size = Path(arguments.output), arguments.word_bytes
    if size < 1 or size > 512 or size & (size - 1):
        raise fail("E0002", f"--word-bytes {size} is no power of two from 1 to 512")
    runs = _recorded(arguments)
    folder.mkdir(parents=True, exist_ok=True)
    for run in runs.values():
        for name, data in run_files(run, size).items():
            write_atomic(folder / name, data)
        program, memory = run.image.program, run.image.map.memory
        streams = "one stream" if len(program.streams) == 1 else f"{len(program.streams)} streams"
        print(f"{folder}/{run.image.name}.json: {len(program)} instructions in {streams}, {len(run.before)} bytes of {memory} before and after")


def compare(arguments: argparse.Namespace) -> int:
    """Exit code 1 where memories differ. Raises UserError as `write`, E0003 for another region, E1119 for a file that is no such memory."""
    from toolchain.verify.cosim import compare_memory

    runs = _recorded(arguments)
    name = arguments.region or next(iter(runs))
    if name not in runs:
        raise fail("E0003", f"the bundle has no program '{name}'", hint=f"known: {', '.join(runs)}")
    found = _memory(Path(arguments.result), len(runs[name].after))
    with sign("comparing"):
        difference = compare_memory(runs[name], found)
    if difference is None:
        print(f"{name}: equal, {len(found)} bytes")
        return 0
    print(f"{name}: {difference.differing} of {len(found)} bytes differ")
    if difference.tensor:
        print(f"  result     '{difference.tensor}', first at {list(difference.coordinates)} (image, channel, row, column)")
    place = f" in {difference.segment}" if difference.segment else ""
    print(f"  earliest   byte {difference.address:#x}{place}: {difference.found:#04x}, not {difference.expected:#04x}")
    print(f"  written by {difference.writer or 'no instruction'}")
    return 1


def _recorded(arguments: argparse.Namespace) -> "Mapping[str, RecordedRun]":
    from toolchain.runtime.executor import load
    from toolchain.verify.cosim import RunRecorder

    path, recorder = Path(arguments.bundle), RunRecorder()
    with sign("emulating"):
        executor = load(path, device=recorder)
        executor.run(_sample(executor.manifest.inputs, arguments))
    if not recorder.runs:
        raise fail("E1119", "no region of the bundle is a program of a machine", place=str(path))
    return recorder.runs


def _sample(entries: "Sequence[Interface]", arguments: argparse.Namespace) -> "Mapping[str, Array]":
    """The first sample of the file, or one that is drawn. Raises UserError E0808, and E1108 for an input whose size is open."""
    from toolchain.models.model import Input, Recorded
    from toolchain.models.samples import recorded_samples, seeded_inputs

    inputs: dict[str, Input] = {}
    for entry in entries:
        if entry.shape is None or min(entry.shape, default=1) < 1:
            raise fail("E1108", f"the input '{entry.name}' has no size of its own, so no sample is made for it")
        inputs[entry.name] = Input(entry.shape, entry.dtype)
    if not arguments.input:
        return {name: seeded_inputs(name, entry, 1)[0] for name, entry in inputs.items()}
    recorded = Recorded(Path(arguments.input), {name: name for name in inputs}, 1.0, None, raw=False, finite=False)
    return {name: samples[0] for name, samples in recorded_samples(recorded, inputs).items()}


def _memory(path: Path, size: int) -> "Array":
    """Raises UserError E0001, and E1119 for another size of raw bytes."""
    import numpy as np

    from toolchain.verify.cosim import read_words

    data = read_limited(path, MOST_BYTES, "the memory")
    if path.suffix == ".bin":
        if len(data) != size:
            raise fail("E1119", f"the file has {len(data)} bytes, the memory {size}", place=str(path))
        return np.frombuffer(data, np.uint8)
    return read_words(Source(str(path), data.decode("ascii", "replace")), size)


def profile(arguments: argparse.Namespace) -> None:
    """Prints a table for each region that the profile has, and writes page and JSON where asked to.

    Raises UserError E0001, E0002, E0005, E11xx for the bundle, E1128 for a profile that is none of its programs'.
    """
    from toolchain.report.bundles import modelled_region, timed_regions
    from toolchain.report.measured_times import beside, measured_spans, overlay, profile_file, profile_text
    from toolchain.report.timeline_data import write_timeline_page
    from toolchain.runtime.bundle import trusted_bundle
    from toolchain.spec.typed_json import to_json

    path = Path(arguments.bundle)
    bundle, machines = trusted_bundle(path, arguments.machine)
    regions = timed_regions(bundle, machines)
    found = profile_file(Path(arguments.profile))
    chosen = _chosen(found, regions, arguments.region)
    if arguments.html and len(chosen) > 1:
        raise fail("E0002", "a page is of one region", hint=f"choose it with --region: {', '.join(chosen)}")
    tables = list[object]()
    for name, region in chosen.items():
        with sign("timing"):
            modelled = modelled_region(bundle, region, machines[region.target], str(path))
        spans = measured_spans(found, found.of_region(name, len(regions) == 1), modelled)
        table = beside(found, spans, modelled)
        tables.append(to_json(table))
        print(profile_text(table, sys.stdout.isatty(), shutil.get_terminal_size().columns), end="")
        if arguments.html:
            title = f"{bundle.manifest.model} on {table.machine}, {name}, modelled and measured"
            write_timeline_page(Path(arguments.html), title, modelled.timeline, modelled.legend, overlay(modelled, spans))
    if arguments.json:
        write_atomic(Path(arguments.json), (json.dumps(tables, indent=1) + "\n").encode())


def _chosen(found: "Profile", regions: "Mapping[str, RegionProgram]", only: str | None) -> "Mapping[str, RegionProgram]":
    """The regions that the profile has rows of. Raises UserError E1128 for rows of none, E0003 for another region."""
    if only is not None and only not in regions:
        raise fail("E0003", f"the bundle has no program '{only}'", hint=f"known: {', '.join(regions)}")
    chosen = {name: regions[name] for name in found.regions(regions) if only in (None, name)}
    if not chosen:
        raise fail("E1128", f"the profile has no row of '{only}'", place=found.source.path)
    return chosen
