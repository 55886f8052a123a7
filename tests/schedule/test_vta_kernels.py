"""Every kernel of VTA is exact against the integer reference and free of races, on every configuration that it serves."""

import pytest
from hypothesis import given, settings

from tests.schedule.vta_operations import additions, average_pools, depthwises, exact, leaky_convolutions, max_pools, upsamples
from toolchain.schedule.compile import Choice, compile_operation
from toolchain.schedule.kernel_file import load_kernel
from toolchain.schedule.operations.operation import Operation
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine

MACHINE = load_machine("vta")
KINDS = {
    "conv2d": leaky_convolutions(), "depthwise": depthwises(), "average_pool": average_pools(), "max_pool": max_pools(), "add": additions(),
    "upsample": upsamples(),
}  # fmt: skip


def compiled(operation: Operation, machine: Machine = MACHINE, contexts: int = 2) -> Choice:
    return compile_operation(machine, load_kernel(machine, operation.kind), operation, contexts, timed=1)


@pytest.mark.parametrize("kind", KINDS)
def test_any_operation_of_a_kind_is_exact(kind: str) -> None:
    @settings(max_examples=40, deadline=None)
    @given(KINDS[kind])
    def check(operation: Operation) -> None:
        assert exact(compiled(operation), operation)

    check()
