"""Groups that the search finds: chains of random operations on tensors many times the memory are exact, whatever an edit makes of them too. A
plan without groups stays what it was; one with groups has those that were chosen."""

from copy import deepcopy
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.operations import made
from tests.schedule.convolutions import convolution
from tests.schedule.groups.tall_regions import scheduled, short_machine, tall_region
from tests.schedule.test_compile_region import proven
from tests.yaml_text import dumped, loaded
from toolchain.abi.dram_map import Shape
from toolchain.operations.operation import Operation
from toolchain.schedule.compile_region import compile_region, find_groups, find_schedule
from toolchain.schedule.form.files import read_schedule, write_schedule
from toolchain.schedule.form.plan import Schedule
from toolchain.schedule.groups import search
from toolchain.schedule.groups.search import Grouping
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options
from toolchain.schedule.program import CompiledRegion
from toolchain.schedule.regions.region import Bound, Region
from toolchain.schedule.rows.row_group import RowGroup
from toolchain.spec.errors import Source, UserError
from toolchain.spec.load import load_machine


def built(region: Region, schedule: Schedule | None = None, **options: Any) -> CompiledRegion:
    return compile_region(*short_machine(), region, Options(**options), schedule)


def sizes(schedule: Schedule) -> list[int]:
    return [len(group.operations) for group in schedule.groups]


def chained(shape: tuple[int, int, int, int], *steps: tuple[Operation, dict[str, str]]) -> Region:
    """Operations one after the other; their results are t0, t1 and so on, the picture is t."""
    tensors, bound = {"t": Shape(*shape)}, list[Bound]()
    for number, (operation, sources) in enumerate(steps):
        tensors[f"t{number}"] = Shape(*operation.output)
        bound.append(Bound(replace(operation, name=f"op{number}"), {**sources, "y": f"t{number}"}))
    return Region("chain", tensors, ("t",), (f"t{len(steps) - 1}",), tuple(bound), {})


TALL = (4, 16, 400, 6)


def conv(seed: int, shape: tuple[int, int, int, int] = TALL, **options: Any) -> Operation:
    return convolution(shape, (16, 3, 3), seed, 50, **{"pads": (1, 1, 1, 1), "low": 0, "high": 127, **options})


def pool(shape: tuple[int, int, int, int] = TALL) -> Operation:
    return made.max_pool("pool", shape, made.Window((2, 2), (2, 2), (0, 0, 0, 0)))


def add() -> Operation:
    return made.add("add", TALL, end=made.Requantise(1, 0, 127))


def pointwise(seed: int) -> Operation:
    return convolution(TALL, (16, 1, 1), seed, 50, low=0, high=127)


def smooth() -> Operation:
    return made.max_pool("smooth", TALL, made.Window((3, 3), (1, 1), (1, 1, 1, 1)))


CHAINS = {
    "conv -> pool": chained(TALL, (conv(0), {"x": "t"}), (pool(), {"x": "t0"})),
    "pool -> conv": chained((4, 16, 800, 12), (pool((4, 16, 800, 12)), {"x": "t"}), (conv(1), {"x": "t0"})),
    "conv -> add": chained(TALL, (conv(0), {"x": "t"}), (add(), {"x": "t0", "z": "t"})),
    "conv -> conv": chained(TALL, (conv(0), {"x": "t"}), (conv(1), {"x": "t0"})),
    "strided": chained(TALL, (conv(0), {"x": "t"}), (conv(1, strides=(2, 2)), {"x": "t0"})),
    "residual": chained(
        TALL, (conv(0), {"x": "t"}), (conv(1), {"x": "t0"}), (add(), {"x": "t1", "z": "t0"}), (conv(2), {"x": "t2"}), (pool(), {"x": "t3"})
    ),
    "shortcut": chained(TALL, (conv(0), {"x": "t"}), (conv(1), {"x": "t0"}), (add(), {"x": "t1", "z": "t"})),
    "branches": chained(TALL, (pointwise(0), {"x": "t"}), (conv(1), {"x": "t"}), (smooth(), {"x": "t"}), (pointwise(2), {"x": "t2"})),
}  # fmt: skip
CHAINS["branches"] = replace(CHAINS["branches"], outputs=("t0", "t1", "t3"))


@cache
def schedule_of(name: str) -> Schedule:
    """What the search makes of a chain, found once for all tests of this process; an edit works on a copy of its text."""
    return scheduled(CHAINS[name])


@cache
def group_of(name: str) -> CompiledRegion:
    """The chain compiled so."""
    return built(CHAINS[name], schedule_of(name))


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_is_one_group_that_is_exact_and_moves_less(name: str) -> None:
    region = CHAINS[name]
    assert sizes(schedule_of(name)) == [len(region.operations)]
    grouped, apart = group_of(name), built(region, resident=False, effort=0)
    assert proven(grouped, grouped.program.machine)
    assert moved(grouped) < moved(apart)
    assert not set(grouped.map.tensors) - {"t", *region.outputs}


@pytest.mark.parametrize("name", ["conv -> conv", "strided", "shortcut", "branches"])
def test_a_group_loads_each_row_of_its_input_once(name: str) -> None:
    region, schedule, found = CHAINS[name], schedule_of(name), group_of(name)
    (group,) = schedule.groups
    assert [load.buffer.tensor for load in group.loads] == ["t"]
    once = sum(map(len, found.constants.values())) + found.map.tensors["t"].bytes
    assert read_of(found) == once
    assert read_of(built(region, without_loads(schedule))) > once


def without_loads(schedule: Schedule) -> Schedule:
    """The schedule in which each operation loads by itself what its tiles need, into slots that find their places."""
    groups = (replace(group, loads=(), operations=tuple(replace(operation, slots={}) for operation in group.operations)) for group in schedule.groups)
    return replace(schedule, groups=tuple(groups))


def read_of(compiled: CompiledRegion) -> int:
    """Bytes that a program reads from DRAM."""
    memories = compiled.program.machine.memories
    dram = next(number for number, memory in enumerate(memories) if memory.kind == "dram")
    return int(compiled.checked.footprints.traffic_read[:, dram].sum())


def test_several_groups_load_a_tensor_each_for_itself() -> None:
    region, schedule = CHAINS["branches"], schedule_of("branches")
    (group,) = schedule.groups
    halves = tuple(replace(group, operations=tuple(o for o in group.operations if o.operation in part)) for part in ((0, 1), (2, 3)))
    found = built(region, replace(schedule, groups=halves))
    assert proven(found, found.program.machine)
    assert read_of(found) > read_of(group_of("branches"))


@pytest.mark.parametrize("name", ["conv -> pool", "conv -> add"])
def test_where_memory_does_not_wrap_rings_begin_again(name: str) -> None:
    region = CHAINS[name]
    schedule = scheduled(region, around=False)
    (ring,) = schedule.buffers
    assert ring.lines > 0
    assert sizes(schedule) == [2]
    grouped, apart = built(region, schedule), built(region, grouped=False, effort=0)
    assert proven(grouped, grouped.program.machine)
    assert moved(grouped) < moved(apart)


@cache
def flat_schedule_of(name: str) -> Schedule:
    """As `schedule_of`, where memory does not wrap."""
    return scheduled(CHAINS[name], around=False)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", ["conv -> conv", "strided", "residual", "shortcut"])
def test_rows_that_two_slabs_read_stand_on_both_sides_of_the_end_of_a_ring(name: str) -> None:
    region, schedule = CHAINS[name], flat_schedule_of(name)
    (group,) = schedule.groups
    rings = [*schedule.buffers, *(load.buffer for load in group.loads)]
    assert len(group.operations) == len(region.operations)
    assert all(ring.lines >= 2 * ring.overlap for ring in rings)
    assert any(ring.overlap for ring in schedule.buffers)
    assert any(load.buffer.overlap for load in group.loads)
    grouped, apart = built(region, schedule), built(region, resident=False, effort=0)
    assert proven(grouped, grouped.program.machine)
    assert moved(grouped) < moved(apart)


def test_a_read_across_the_end_of_a_ring_without_overlap_is_refused() -> None:
    schedule = flat_schedule_of("conv -> conv")
    (ring,) = schedule.buffers
    assert ring.overlap
    with pytest.raises(UserError, match=r"E1411 rows \d+ to \d+ of 't0', which one slab makes or reads, stand on both sides of the end"):
        built(CHAINS["conv -> conv"], replace(schedule, buffers=(replace(ring, overlap=0),)))


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 1 << 30), steps=st.integers(3, 7))
def test_any_tall_region_is_exact_where_memory_does_not_wrap(seed: int, steps: int) -> None:
    region = tall_region(seed, steps)
    if region is not None:
        assert proven(built(region, scheduled(region, around=False)), short_machine()[0])


def moved(compiled: CompiledRegion) -> int:
    """Instructions that load or store."""
    names = [item.name for item in compiled.program.machine.instructions]
    return sum(names[int(kind)] in ("LOAD", "SAVE") for kind in compiled.program.kind)


def test_what_operations_elsewhere_read_is_stored_as_well() -> None:
    first, last = conv(0), conv(3)
    region = chained(TALL, (first, {"x": "t"}), (conv(1), {"x": "t0"}), (last, {"x": "t1"}))
    region = replace(region, outputs=("t0", "t2"))
    schedule = scheduled(region)
    assert {buffer.tensor: buffer.stored for buffer in schedule.buffers} == {"t0": True, "t1": False}
    assert proven(built(region, schedule), short_machine()[0])


@settings(max_examples=7, deadline=None)
@given(seed=st.integers(0, 1 << 30), steps=st.integers(3, 7))
def test_any_tall_region_is_exact_and_free_of_races(seed: int, steps: int) -> None:
    region = tall_region(seed, steps)
    if region is not None:
        assert proven(built(region, scheduled(region)), short_machine()[0])


def attempt(region: Region, data: dict[str, Any], draw: Random) -> dict[str, Any]:
    """The data with one number changed; as before where that is refused, with its line."""
    new = deepcopy(data)
    rings = [buffer for buffer in new["buffers"] if "pitch" in buffer]
    rings += [load for group in new["groups"] for load in group.get("loads", [])]
    ends = [ring for ring in rings if "lines" in ring]
    choice = draw.randrange(5 if ends else 4)
    if choice == 0 and rings:
        ring = draw.choice(rings)
        ring["pitch"] = max(ring["pitch"] + draw.choice([-8, 8, 16, 40]), 1)
    elif choice == 1 and rings:
        draw.choice(rings)["address"] = draw.randrange(128)
    elif choice == 2:
        draw.choice(new["groups"])["ahead"] = draw.randrange(4)
        for load in new["groups"][0].get("loads", []):
            load["rows"] = draw.choice([1, 3, 8, 12, 16])
    elif choice == 4:
        ring, key = draw.choice(ends), draw.choice(["lines", "overlap", "late"])
        ring[key] = max(ring.get(key, 0) + draw.choice([-2, -1, 1, 2]), 1)
    else:
        operation = draw.choice(draw.choice(new["groups"])["operations"])
        operation["tile"]["oh"] = draw.choice([4, 8, 12, 16, 24])
        operation.pop("slots", None)
    try:
        compiled = built(region, read_schedule(Source("mine.yaml", dumped(new))))
    except UserError as error:
        assert error.diagnostics[0].code.startswith("E14"), error  # noqa: PT017 any other refusal is a fault
        assert str(error).startswith("mine.yaml:"), error  # noqa: PT017
        return data
    assert proven(compiled, compiled.program.machine), dumped(new)
    return new


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 1 << 30), name=st.sampled_from(sorted(CHAINS)), around=st.booleans())
def test_whatever_an_edit_of_a_group_makes_is_exact_or_refused(seed: int, name: str, around: bool) -> None:
    data: dict[str, Any] = loaded(write_schedule(schedule_of(name) if around else flat_schedule_of(name)))
    draw = Random(seed)
    for _ in range(3):
        data = attempt(CHAINS[name], data, draw)


def test_where_memory_is_large_nothing_is_grouped() -> None:
    machine, kernels = short_machine(8192)
    schedule = compile_region(machine, kernels, CHAINS["residual"]).schedule
    assert set(sizes(schedule)) == {1}
    assert all(buffer.pitch == 0 for buffer in schedule.buffers)


def test_branches_share_a_load_where_memory_does_not_wrap() -> None:
    machine = load_machine("dnnvm")
    kernels = dict(load_kernels(machine))
    shape = (1, 12, 400, 40)
    first, second, third = (convolution(shape, (12, 1, 1), seed, 8, low=0, high=127) for seed in range(3))
    region = replace(chained(shape, (first, {"x": "t"}), (second, {"x": "t"}), (third, {"x": "t1"})), outputs=("t0", "t2"))
    with mock.patch.object(search, "_cycles", return_value=0.0):
        schedule = find_schedule(machine, kernels, region, Options(timed_groups=False))
    (group,) = schedule.groups
    assert [(load.buffer.tensor, load.buffer.lines > 0) for load in group.loads] == [("t", True)]
    assert proven(compile_region(machine, kernels, region, None, schedule), machine)


def found() -> Grouping:
    return find_groups(*short_machine(), CHAINS["conv -> conv"], Options())


def test_the_plan_has_the_groups_that_were_chosen() -> None:
    grouping = found()
    assert [proposal.group.operations for proposal in grouping.chosen] == [range(2)]
    assert not grouping.base.groups
    assert [type(group) for group in grouping.plan.groups.values()] == [RowGroup]


def test_a_group_joins_the_others_in_the_order_of_operations() -> None:
    grouping = found()
    (proposal,) = grouping.chosen
    alone = Grouping(grouping.base, grouping.candidates, grouping.members)
    assert not alone.plan.groups
    assert alone.joined(proposal).plan.groups.keys() == grouping.plan.groups.keys()
