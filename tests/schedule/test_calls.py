"""Calls of a library: their tensors' places, each apart where that is asked, and their cycles."""

from itertools import pairwise

import pytest

from tests.c_networks import clib, compiled
from tests.codegen.test_c99 import integer_region
from toolchain.schedule.calls import library_call, plan_calls
from toolchain.schedule.estimate import estimate_region
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine


def test_tensors_share_room_unless_they_are_kept_apart() -> None:
    shared, apart = (plan_calls(clib(), integer_region(), apart=each) for each in (False, True))
    assert shared.placed.map.bytes < apart.placed.map.bytes
    held = apart.placed.map
    ranges = sorted({(held.segments[t.segment].address + t.offset, t.bytes) for t in held.tensors.values()})
    assert all(first + size <= second for (first, size), (second, _) in pairwise(ranges))


def test_cycles_are_those_of_the_kernels() -> None:
    plan = plan_calls(clib(), integer_region())
    (call,) = [node for node in compiled().partitioned.graph if node.op_type == "region0"]
    estimate = estimate_region(clib(), compiled().partitioned, call)
    assert estimate.cycles == sum(plan.cycles) > 0
    assert [o.cycles for o in estimate.operations] == list(plan.cycles)
    assert set(estimate.border) == {"x.int8", "y.int8"}


def test_a_kernel_of_instructions_is_no_call() -> None:
    machine = load_machine("vta")
    kernel = load_kernels(machine)["conv2d"]
    plan = plan_calls(clib(), integer_region())
    from dataclasses import replace

    with pytest.raises(UserError, match="E1010 kernel 'conv2d' calls no library"):
        library_call(replace(plan.problems[0], kernel=kernel))
    assert not clib().tiled
