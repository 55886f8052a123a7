"""The program of a region out of a bundle, for a device or for a report."""

from toolchain.isa.binary.container import read_container
from toolchain.isa.binary.decode import decode
from toolchain.runtime.contents import Bundle, RegionProgram
from toolchain.runtime.device import Image
from toolchain.spec.model import Machine


def region_image(bundle: Bundle, region: RegionProgram, machine: Machine, place: str = "") -> Image:
    """The program of a region as a device loads it. Raises UserError E032x and E03xx for a program that is damaged or not the machine's."""
    streams = read_container(machine, bundle.members[region.binary], f"{place} {region.binary}")
    constants = {name: bundle.members[member] for name, member in region.constants.items()}
    return Image(region.name, decode(machine, streams, f"{place} {region.binary}"), region.map, constants)
