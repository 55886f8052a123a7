"""A bundle as an execution provider of ONNX Runtime: a plug-in in C that runs its EPContext nodes, see `toolchain.runtime.ep_context`.

Source of the interface: ONNX Runtime, Plugin Execution Provider Libraries, https://onnxruntime.ai/docs/execution-providers/plugin-ep-libraries/.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from toolchain.codegen.generator import render
from toolchain.runtime.bundle import digest, manifest_text
from toolchain.runtime.contents import Bundle, Port, RegionProgram
from toolchain.runtime.stand_alone import (
    BUNDLE_SOURCE,
    DEVICE_SOURCE,
    HEADER,
    ROUNDED,
    RUNTIME,
    CMemory,
    CStep,
    CTensor,
    ProgramWriter,
    region_sources,
)
from toolchain.spec.model import Machine
from toolchain.spec.packages import __version__

MOST_AXES = 8
"""Of a tensor at a region's border, in tilewright_provider.h."""
SOURCES = ("tilewright_provider.h", "tilewright_provider.c")
MAIN = "provider.c"
HINT = "`toolchain.load` in Python runs every bundle"


@dataclass(frozen=True)
class _Border:
    """A tensor at a region's border. bytes: of one sample."""

    shape: tuple[int, ...]
    bytes: int


@dataclass(frozen=True)
class _Region:
    """inputs: how many of the ports, and of the tensors, are inputs; they come first."""

    memory: CMemory
    steps: tuple[CStep, ...]
    tensors: tuple[CTensor, ...]
    ports: tuple[_Border, ...]
    inputs: int


@dataclass(frozen=True)
class Provider:
    """name: what ONNX Runtime calls it. files: by name; sources: those to compile, with the one of the regions first."""

    name: str
    files: Mapping[str, bytes]
    sources: tuple[str, ...]


def provider(bundle: Bundle, machines: Mapping[str, Machine], place: str = "") -> Provider:
    """The same bytes for the same bundle. place: for messages.

    Raises UserError E1114 for a region that no program in C can run: a graph, one of several images a run, or no bytes with a sign at its border.
    """
    if not bundle.manifest.regions:
        raise ProgramWriter(bundle, machines, place, HINT).refused("nothing of the model runs on a machine")
    regions = [_region(bundle, machines, region, place) for region in bundle.manifest.regions]
    used = (HEADER, BUNDLE_SOURCE, *SOURCES, *((DEVICE_SOURCE,) if any(region.memory.machine for region in regions) else ()))
    files = {name: (RUNTIME / name).read_bytes() for name in used} | region_sources(bundle)
    sources = (MAIN, *sorted(name for name in files if name.endswith(".c")))
    manifest = digest(manifest_text(bundle).encode())
    name = f"tilewright_{manifest[:12]}"
    text = render(
        "c99", "provider.c.j2", model=bundle.manifest.model, name=name, version=__version__, manifest=manifest, regions=regions,
        sources=" ".join(sources), rounded=ROUNDED["half_up"],
    )  # fmt: skip
    return Provider(name, files | {MAIN: text.encode()}, sources)


def _region(bundle: Bundle, machines: Mapping[str, Machine], run: RegionProgram, place: str) -> _Region:
    """The region's steps between its border, given as arrays, and its memory."""
    writer = ProgramWriter(bundle, machines, place, HINT)
    real = machines[run.target].calls_operators
    for port in run.inputs:
        writer.tensor(port.name, "float" if real else "int8_t", _elements(writer, run, port))
    writer.region(run)
    ports = (*run.inputs, *run.outputs)
    tensors = tuple(writer.tensors[port.name] for port in ports)
    wide = 4 if real else 1
    borders = tuple(_Border(port.shape, wide * _elements(writer, run, port)) for port in ports)
    return _Region(writer.memory(run), tuple(writer.steps), tensors, borders, len(run.inputs))


def _elements(writer: ProgramWriter, run: RegionProgram, port: Port) -> int:
    """Of one sample."""
    if len(port.shape) > MOST_AXES or min(port.shape, default=1) < 1:
        raise writer.refused(f"'{port.name}' of region '{run.name}' has more than {MOST_AXES} axes, or one without a size")
    return math.prod(port.shape)
