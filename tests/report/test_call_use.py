from tests.c_networks import clib
from tests.codegen.test_c99 import region
from toolchain.report.call_use import use_calls
from toolchain.schedule.calls import plan_calls


def test_calls_cost_what_their_kernels_say() -> None:
    own = region()
    found, plan = use_calls(clib(), own), plan_calls(clib(), own)
    assert found.cycles == found.bound == sum(plan.cycles)
    assert [use.cycles for use in found.operations] == list(plan.cycles)
    assert found.instructions == len(own.operations)
    (memory,) = found.memories
    assert not memory.on_chip
    assert memory.read + memory.written == sum(use.bytes for use in found.operations)
    first = found.operations[0]
    assert first.operation == "conv"
    assert first.bytes == 3 * 12 * 10 + 18 * 3 * 3 * 3 + 3 * 4 * 18 + 18 * 6 * 10
