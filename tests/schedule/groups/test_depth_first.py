"""Depth-first order: a residual block runs row by row where its addition would be left for the next block, and gives the same integers."""

from dataclasses import replace

import numpy as np
import pytest

from tests.operations import made
from tests.schedule.convolutions import convolution
from tests.schedule.test_compile_region import proven
from toolchain.abi.dram_map import Shape
from toolchain.schedule import planner as compiling
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.groups.depth_first import late_work
from toolchain.schedule.groups.search import Grouping
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options
from toolchain.schedule.program import CompiledRegion
from toolchain.schedule.regions.region import Bound, Region

MACHINE = made.load_machine("dpuv3")
KERNELS = load_kernels(MACHINE)
NARROW, WIDE, TALL, SMALL = (4, 64, 56, 56), (4, 256, 56, 56), (4, 48, 57, 57), (4, 64, 28, 28)


def block() -> Region:
    """1x1, 3x3 and 1x1, an addition that takes as long as the last of them, and the first convolution of the next block."""
    bound = (
        Bound(replace(convolution(NARROW, (256, 1, 1), 0, 500), name="before"), {"x": "x", "y": "a"}),
        Bound(replace(convolution(WIDE, (64, 1, 1), 1, 500), name="first"), {"x": "a", "y": "b"}),
        Bound(replace(convolution(NARROW, (64, 3, 3), 1, 500, pads=(1, 1, 1, 1)), name="second"), {"x": "b", "y": "c"}),
        Bound(replace(convolution(NARROW, (256, 1, 1), 1, 500), name="third"), {"x": "c", "y": "d"}),
        Bound(made.add("add", WIDE, 1, 1, made.Requantise(1)), {"x": "d", "z": "a", "y": "s"}),
        Bound(replace(convolution(WIDE, (64, 1, 1), 2, 500), name="next"), {"x": "s", "y": "y"}),
    )
    shapes = {"x": NARROW, "a": WIDE, "b": NARROW, "c": NARROW, "d": WIDE, "s": WIDE, "y": NARROW}
    return Region("block", {name: Shape(*size) for name, size in shapes.items()}, ("x",), ("y",), bound, {})


@pytest.fixture(scope="module")
def prompt() -> CompiledRegion:
    return compile_region(MACHINE, KERNELS, block())


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> CompiledRegion:
    def unchanged(found: Grouping, *_: object) -> Grouping:
        return found

    monkeypatch.setattr(compiling, "depth_first", unchanged)
    return compile_region(MACHINE, KERNELS, block())


def test_the_addition_runs_beside_the_convolutions_before_it(prompt: CompiledRegion, one_by_one: CompiledRegion) -> None:
    assert all(len(group.operations) == 1 for group in one_by_one.schedule.groups)
    (group,) = (group for group in prompt.schedule.groups if len(group.operations) > 1)
    assert group.operations[-1].name == "add"
    assert prompt.cycles < 0.97 * one_by_one.cycles


def test_the_results_are_the_same(prompt: CompiledRegion) -> None:
    assert proven(prompt, MACHINE, seed=3)


def test_the_schedule_says_all(prompt: CompiledRegion) -> None:
    again = compile_region(MACHINE, KERNELS, block(), schedule=prompt.schedule)
    assert again.program.streams == prompt.program.streams


def test_late_work_is_what_the_busiest_unit_loses(one_by_one: CompiledRegion) -> None:
    """By the definition, instruction by instruction."""
    timeline, operation = one_by_one.timeline, one_by_one.origins.operation
    unit, (start, end) = timeline.program.unit, (timeline.result.start, timeline.result.end)
    busiest = [unit.name for unit in MACHINE.units].index("conv")
    found: dict[int, tuple[float, float]] = {}
    for index in np.flatnonzero(unit == busiest).tolist():
        lost = timeline.waited[index], timeline.contended[index]
        beside = [o for o in range(len(unit)) if unit[o] != busiest and end[o] > start[index] - timeline.waited[index] and start[o] < end[index]]
        for late in {int(operation[other]) for other in beside if 0 <= operation[other] < operation[index]} if sum(lost) > 0 else ():
            waited, contended = found.get(late, (0.0, 0.0))
            found[late] = waited + lost[0], contended + lost[1]
    late = late_work(timeline, one_by_one.origins)
    assert late.keys() == found.keys()
    assert all(tuple(late[index]) == pytest.approx(found[index]) for index in found)
    assert max(found, key=lambda index: sum(found[index])) == 4
    assert late[4].cycles == pytest.approx(sum(found[4]))


def pooled() -> Region:
    """A pool whose readers wait for its last rows: a chain as SqueezeNet has them."""
    bound = (
        Bound(replace(convolution(TALL, (64, 3, 3), 0, 500, pads=(1, 1, 1, 1)), name="before"), {"x": "x", "y": "a"}),
        Bound(made.max_pool("pool", (4, 64, 57, 57), made.Window((3, 3), (2, 2))), {"x": "a", "y": "p"}),
        Bound(replace(convolution(SMALL, (16, 1, 1), 1, 500), name="squeeze"), {"x": "p", "y": "s"}),
        Bound(replace(convolution((4, 16, 28, 28), (64, 1, 1), 1, 500), name="expand"), {"x": "s", "y": "e"}),
        Bound(replace(convolution(SMALL, (64, 3, 3), 1, 500, pads=(1, 1, 1, 1)), name="last"), {"x": "e", "y": "y"}),
    )
    shapes = {"x": TALL, "a": (4, 64, 57, 57), "p": SMALL, "s": (4, 16, 28, 28), "e": SMALL, "y": SMALL}
    return Region("chain", {name: Shape(*size) for name, size in shapes.items()}, ("x",), ("y",), bound, {})


def test_operations_behind_a_late_one_take_turns_with_it_where_that_is_quicker(monkeypatch: pytest.MonkeyPatch) -> None:
    longer = compile_region(MACHINE, KERNELS, pooled())
    monkeypatch.setattr("toolchain.schedule.groups.depth_first.BEHIND", range(1, 1))
    shorter = compile_region(MACHINE, KERNELS, pooled())
    assert longer.cycles < shorter.cycles
    assert proven(longer, MACHINE, seed=5)


def test_nothing_takes_turns_without_groups() -> None:
    compiled = compile_region(MACHINE, KERNELS, block(), Options(grouped=False))
    assert all(len(group.operations) == 1 for group in compiled.schedule.groups)
