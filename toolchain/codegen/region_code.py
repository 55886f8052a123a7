"""The code of one region, ready for a bundle: bytes alone, whatever generator made them."""

from collections.abc import Mapping
from dataclasses import dataclass

from toolchain.abi.dram_map import DramMap


@dataclass(frozen=True)
class RegionCode:
    """target: the name of its machine. suffix: of the member that holds `blob`, without a dot. blob: the bytes that a device loads.

    source: the text that the blob was made of, for a reader. listing: a line for each instruction, with its purpose. origins: the same by
    numbers, as JSON. schedule: as YAML. map: the planned memory, with every tensor's place. constants: bytes by segment. images: of one run.
    cycles: of a run, by the cycle model.
    """

    target: str
    suffix: str
    blob: bytes
    source: str
    listing: str
    origins: bytes
    schedule: str
    map: DramMap
    constants: Mapping[str, bytes]
    images: int
    cycles: float
