"""What a region is estimated at, against what its program costs."""

import pytest

from tests.runtime.small import bundle, network
from toolchain.graph.regions import region_calls
from toolchain.runtime.transfers import ports_of
from toolchain.schedule.backend import Backend
from toolchain.schedule.estimate import estimate_region
from toolchain.schedule.kernel_selection import Selection
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.read_region import settle_region


@pytest.mark.parametrize("target", ["vta", "dpuv3"])
def test_an_estimate_is_close_to_the_program(target: str) -> None:
    machine, given, _ = network(target)
    model = given.clone()
    for call in region_calls(model):
        settle_region(Selection(machine, load_kernels(machine)), model, call)
    programs = {region.name: region for region in bundle(target).manifest.regions}
    found = {call.op_type: estimate_region(Backend(machine, load_kernels(machine)), model, call) for call in region_calls(model)}
    assert found.keys() == programs.keys()
    for name, estimate in found.items():
        program = programs[name]
        assert 0.5 < estimate.cycles / program.cycles < 2
        sizes = {port.name: program.map.tensors[port.tensor].bytes for port in ports_of(program)}
        assert {tensor: stored.bytes for tensor, stored in estimate.border.items()} == sizes
    first = found["region0"]
    assert [(operation.name, operation.kind) for operation in first.operations] == [("conv1", "conv2d"), ("conv2", "conv2d")]
    assert first.cycles == sum(operation.cycles for operation in first.operations)
