"""The code of one region, ready for a bundle: bytes alone, whatever generator made them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from toolchain.abi.dram_map import DramMap


@dataclass(frozen=True)
class RegionCode:
    """target: the name of its machine. suffix: of the member that holds `blob`, without a dot. blob: the bytes that a device loads.

    source: the text that the blob was made of, for a reader. map: the planned memory, with every tensor's place. constants: bytes by segment.
    images: of one run. cycles: of a run, by the cycle model.

    Of code in a machine's own instructions, empty for other: listing, a line for each instruction, with its purpose; origins, the same by numbers,
    as JSON; schedule, as YAML. Of code in C: files, by name, that it is compiled with; function, the one to call.
    """

    target: str
    suffix: str
    blob: bytes
    source: str
    map: DramMap
    constants: Mapping[str, bytes]
    images: int
    cycles: float
    listing: str = ""
    origins: bytes = b""
    schedule: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    function: str = ""
