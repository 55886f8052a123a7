"""The interface of a code generator."""

from typing import Protocol

from toolchain.codegen.region_code import RegionCode
from toolchain.graph.graph_region import GraphRegion
from toolchain.schedule.backend import Backend
from toolchain.schedule.form.schedule import Schedule
from toolchain.schedule.regions.region import Region


class Generator(Protocol):
    """Makes code of regions, for machines of one kind."""

    def generate(self, backend: Backend, region: Region | GraphRegion, schedule: Schedule | None = None) -> RegionCode:
        """The region's code, the same bytes for the same arguments. region: of the form that the backend reads. schedule: to be obeyed; without one,
        the generator finds its own.

        Raises UserError for a region that cannot be made.
        """
        ...
