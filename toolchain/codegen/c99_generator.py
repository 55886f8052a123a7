"""The generator of machines whose kernels are functions of a C library: of int8 operations, or of ONNX's operators in float32."""

from toolchain.codegen.c99 import c99_code
from toolchain.codegen.c99_graph import c99_graph_code
from toolchain.codegen.region_code import RegionCode
from toolchain.graph.graph_region import GraphRegion
from toolchain.schedule.backend import Backend
from toolchain.schedule.calls import plan_calls
from toolchain.schedule.form.schedule import Schedule
from toolchain.schedule.regions.region import Region


class C99Generator:
    """Calls run one after the other, so there is no schedule to obey."""

    def generate(self, backend: Backend, region: Region | GraphRegion, schedule: Schedule | None = None) -> RegionCode:
        """Raises UserError E1003, E1004, E1007, E1008 and E1010 for a region that the library cannot do."""
        del schedule
        if isinstance(region, GraphRegion):
            return c99_graph_code(backend, region)
        return c99_code(backend.machine, plan_calls(backend, region))
