"""Code of a region in a form that a device loads: the interface of a generator, the code that it makes, and the templates that generators share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import jinja2

from toolchain.abi.dram_map import DramMap
from toolchain.graph.regions import GraphRegion
from toolchain.schedule.backend import Backend
from toolchain.schedule.form.plan import Schedule
from toolchain.schedule.regions.region import Region
from toolchain.spec.files import PACKAGE


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


class Generator(Protocol):
    """Makes code of regions, for machines of one kind."""

    def generate(self, backend: Backend, region: Region | GraphRegion, schedule: Schedule | None = None) -> RegionCode:
        """The region's code, the same bytes for the same arguments. region: of the form that the backend reads. schedule: to be obeyed; without one,
        the generator finds its own.

        Raises UserError for a region that cannot be made.
        """
        ...


FOLDER = PACKAGE / "templates"


def render(folder: str, template: str, **values: object) -> str:
    """The text of a template in a folder of toolchain/templates with its names in place; each of them has to be given."""
    loader, strict = jinja2.FileSystemLoader(FOLDER / folder), jinja2.StrictUndefined
    environment = jinja2.Environment(loader=loader, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=strict)
    return environment.get_template(template).render(**values)
