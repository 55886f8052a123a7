"""From a region in a bundle to an engine that runs it, by the code generator of its machine."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from toolchain.analysis.checks import prepare_program
from toolchain.codegen.vendor_tool import tool_path
from toolchain.runtime.c_region import CompiledRegion, compile_c
from toolchain.runtime.code_engine import CodeEngine, check_places
from toolchain.runtime.contents import Bundle, RegionProgram
from toolchain.runtime.device import CodeDevice, Device, Image
from toolchain.runtime.graph_engine import engine_of
from toolchain.runtime.image import region_image
from toolchain.runtime.process_device import ProcessDevice
from toolchain.runtime.region_engine import PackedEngine, RegionEngine
from toolchain.spec.errors import fail
from toolchain.spec.model import Machine
from toolchain.timing.simulate import time_program


@dataclass(frozen=True)
class Stored:
    """A region in a bundle. place: of the bundle, as messages print it. native: whether C that it brings may be compiled and run.

    optimise: whether ONNX Runtime may rewrite a graph."""

    bundle: Bundle
    region: RegionProgram
    machine: Machine
    place: str
    native: bool
    optimise: bool = True


Opened = tuple[RegionProgram, RegionEngine]
"""retimed regions say the cycles that the machine's file gives them now."""


def open_region(stored: Stored, device: Device, retimed: bool) -> Opened:
    """retimed: whether the machine's timing is another than when the bundle was made.

    Raises UserError E03xx and E1104 for a damaged region, E05xx and E06xx for a program that must not run, E1113 and E071x for C,
    E1116 and E0713 for a vendor's code.
    """
    return OPENERS[stored.machine.codegen](stored, device, retimed)


def _open_program(stored: Stored, device: Device, retimed: bool) -> Opened:
    image = region_image(stored.bundle, stored.region, stored.machine, stored.place)
    region = replace(stored.region, cycles=cycles_of(image)) if retimed else stored.region
    return region, PackedEngine(stored.machine, region, device.load(image))


def cycles_of(image: Image) -> float:
    """By the cycle model; for a bundle whose cycles were counted with other timing."""
    ready = prepare_program(image.program, image.map.state(image.program.machine, image.constants))
    return time_program(image.program, ready.footprints, ready.provenance, ready.tokens).cycles


def _open_c(stored: Stored, device: Device, retimed: bool) -> Opened:
    """C runs on the host's processor, whatever the device; its cycles stay those of the build."""
    del device, retimed
    region = stored.region
    if not stored.native:
        text = f"region '{region.name}' is C code, which would be compiled and run on this computer"
        raise fail("E1113", text, hint="load it with native=True if you trust where it comes from", place=stored.place)
    if stored.machine.calls_operators:
        check_places(region, stored.place)
        return region, CodeEngine(region, c_of(stored.bundle, region, stored.machine))
    return region, PackedEngine(stored.machine, region, c_of(stored.bundle, region, stored.machine))


def c_of(bundle: Bundle, region: RegionProgram, machine: Machine) -> CompiledRegion:
    """The compiled C of a region in a bundle. Raises UserError E071x and E1104 as `compile_c` does."""
    members = bundle.members
    files, constants = ({name: members[member] for name, member in named.items()} for named in (region.files, region.constants))
    return compile_c(machine, region.name, region.map, region.function, members[region.binary], files, constants)


def _open_graph(stored: Stored, device: Device, retimed: bool) -> Opened:
    """ONNX Runtime stands for the engine, whatever the device; its cycles stay those of the build."""
    del device, retimed
    return stored.region, engine_of(stored.bundle, stored.region, stored.place, stored.optimise)


def _open_code(stored: Stored, device: Device, retimed: bool) -> Opened:
    """A device that does not take a vendor's code has the vendor's own process in its place."""
    del retimed
    machine = stored.machine
    assert machine.tool is not None
    code = stored.bundle.members[stored.region.binary]
    here = device if isinstance(device, CodeDevice) else ProcessDevice((str(tool_path(machine, machine.tool.device)),))
    check_places(stored.region, stored.place)
    return stored.region, CodeEngine(stored.region, here.start(machine.name, code, stored.region.map, {}))


OPENERS: Mapping[str, Callable[[Stored, Device, bool], Opened]] = {"binary": _open_program, "c99": _open_c, "json": _open_graph, "tool": _open_code}
"""By the machine's `codegen`."""
