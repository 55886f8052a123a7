"""A schedule is carried out as it stands, whoever wrote it. The search for a schedule: by estimates alone, by policy, for copies. Whole
regions as one program: exact, free of races, and every instruction belongs to an operation."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hash_seed import printed_elsewhere
from tests.operations import made
from tests.operations.made import load_machine
from tests.schedule.convolutions import convolution
from tests.schedule.made_regions import Builder, expected
from tests.schedule.search.made_graphs import space_on
from toolchain.abi.dram_map import DramMap, Shape
from toolchain.analysis.order import issue_order
from toolchain.emulator import engine_named
from toolchain.schedule import planner
from toolchain.schedule.compile_region import compile_region, compile_schedule, find_schedule, plan_region, search_schedule
from toolchain.schedule.form.plan import Share
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options
from toolchain.schedule.program import CompiledRegion
from toolchain.schedule.regions.region import Bound, Region
from toolchain.spec.errors import UserError
from toolchain.spec.model import Machine
from toolchain.spec.model.quantisation import Numerics

ROOT = Path(__file__).resolve().parents[2]
MACHINES = {name: load_machine(name) for name in ("vta", "dpuv3")}
KERNELS = {name: load_kernels(machine) for name, machine in MACHINES.items()}


def test_the_program_follows_the_schedule_and_is_exact() -> None:
    space = space_on("vta")
    schedule = find_schedule(space.machine, space.kernels, space.region)
    found = compile_schedule(space.machine, space.kernels, space.region, schedule, Options())
    assert found.schedule is schedule
    assert proven(found, space.machine, seed=1)


def test_a_schedule_without_an_operation_is_refused() -> None:
    space = space_on("vta")
    schedule = find_schedule(space.machine, space.kernels, space.region)
    with pytest.raises(UserError, match="E14"):
        compile_schedule(space.machine, space.kernels, space.region, replace(schedule, groups=schedule.groups[1:]), Options())


def test_no_effort_times_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    space, timed = space_on("dpuv3"), planner.Planner.timed
    monkeypatch.setattr(planner.Planner, "timed", lambda *_: pytest.fail("a program was timed"))
    schedule, trials = search_schedule(space.machine, space.kernels, space.region, Options(effort=0))
    assert trials == ()
    monkeypatch.setattr(planner.Planner, "timed", timed)
    known = compile_schedule(space.machine, space.kernels, space.region, find_schedule(space.machine, space.kernels, space.region), Options())
    assert compile_schedule(space.machine, space.kernels, space.region, schedule, Options()).cycles >= known.cycles


@pytest.mark.drawn(2)
@pytest.mark.parametrize("policy", ["greedy", "climb", "cover", "optimal"])
def test_no_policy_is_slower_than_the_greedy_one(policy: str) -> None:
    space = space_on("vta")
    cycles = [
        compile_schedule(
            space.machine, space.kernels, space.region, find_schedule(space.machine, space.kernels, space.region, Options(search=name)), Options()
        ).cycles
        for name in ("greedy", policy)
    ]
    assert cycles[1] <= cycles[0]


def test_a_plan_has_every_operation_once() -> None:
    space = space_on("dpuv3")
    assert sorted(plan_region(space.machine, space.kernels, space.region).order) == list(range(8))


def images(region: Region, seed: int = 0) -> dict[str, np.typing.NDArray[np.int8]]:
    rng = np.random.default_rng(seed)
    return {name: rng.integers(-128, 128, tuple(region.tensors[name]), np.int8) for name in region.inputs}


def proven(compiled: CompiledRegion, machine: Machine, seed: int | None = None) -> bool:
    """Run in the usual order or a random one, every output compared."""
    inputs = images(compiled.region)
    state, wanted = compiled.state(inputs), expected(compiled.region, inputs, machine.quantisation or Numerics())
    engine_named("fast")(compiled.program, state, compiled.checked.order if seed is None else issue_order(compiled.program, seed))
    return all(np.array_equal(compiled.result(state, name), wanted[name]) for name in compiled.region.outputs)


def random_region(kernels: Mapping[str, Kernel], seed: int, steps: int, batch: int) -> Region | None:
    found = Builder(np.random.default_rng(seed), {k.computes for k in kernels.values()}, batch).region(steps)
    return found if found.operations else None


@pytest.mark.drawn(1)
@pytest.mark.parametrize(("name", "batch"), [("vta", 1), ("dpuv3", 4)])
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1 << 30), steps=st.integers(2, 9))
def test_any_region_is_exact_and_free_of_races(name: str, batch: int, seed: int, steps: int) -> None:
    machine, kernels = MACHINES[name], KERNELS[name]
    region = random_region(kernels, seed, steps, batch)
    if region is not None:
        try:
            compiled = compile_region(machine, kernels, region)
        except UserError as error:
            assert error.diagnostics[0].code == "E1003", error  # noqa: PT017 what a kernel refuses is its own matter
        else:
            assert proven(compiled, machine)


def two_convolutions() -> Region:
    first = replace(convolution((1, 20, 9, 9), (32, 3, 3), pads=(1, 1, 1, 1)), name="first")
    second = replace(convolution((1, 32, 9, 9), (17, 1, 1)), name="second")
    tensors = {"x": Shape(1, 20, 9, 9), "t": Shape(1, 32, 9, 9), "y": Shape(1, 17, 9, 9)}
    return Region("two", tensors, ("x",), ("y",), (Bound(first, {"x": "x", "y": "t"}), Bound(second, {"x": "t", "y": "y"})), {})


@cache
def compiled_two() -> CompiledRegion:
    """The two convolutions on vta."""
    return compile_region(MACHINES["vta"], KERNELS["vta"], two_convolutions())


def test_every_instruction_belongs_to_the_operation_that_its_label_names() -> None:
    compiled = compiled_two()
    names = ["first", "second", "end"]
    assert {label.split()[0] for label in compiled.listing if label} == set(names)
    for label, owner in zip(compiled.listing, compiled.owner.tolist(), strict=True):
        assert label.split()[0] == names[owner] if owner >= 0 else label in ("", "end")
    owners = compiled.owner[compiled.order]
    kept = owners[owners >= 0]
    assert np.array_equal(kept, np.sort(kept))


def test_tensors_can_be_read_when_their_operation_is_done() -> None:
    compiled, region = compiled_two(), compiled_two().region
    inputs = images(region)
    state, wanted = compiled.state(inputs), expected(region, inputs, Numerics())
    stop = int(np.flatnonzero(compiled.owner == 0)[-1]) + 1
    engine_named("fast")(compiled.program, state, np.arange(stop))
    assert np.array_equal(compiled.result(state, "t"), wanted["t"])
    assert not np.array_equal(compiled.result(state, "y"), wanted["y"])


def test_random_orders_agree() -> None:
    assert all(proven(compiled_two(), MACHINES["vta"], seed) for seed in range(3))


def test_timing_candidates_is_no_slower_and_progress_is_told() -> None:
    told: list[tuple[int, int, str]] = []
    options = Options(progress=lambda index, count, name: told.append((index, count, name)))
    quick = compile_region(MACHINES["vta"], KERNELS["vta"], two_convolutions(), options)
    slow = compile_region(MACHINES["vta"], KERNELS["vta"], two_convolutions(), Options(timed=4))
    assert told == [(0, 2, "first"), (1, 2, "second")]
    assert slow.cycles <= quick.cycles * 1.1


def test_the_map_survives_json() -> None:
    compiled = compiled_two()
    assert DramMap.from_plain(json.loads(json.dumps(compiled.map.plain()))) == compiled.map


def test_no_kernel_is_one_line() -> None:
    with pytest.raises(UserError, match="E1008 machine 'vta' has no kernel for 'conv2d'"):
        compile_region(MACHINES["vta"], {}, two_convolutions())


def three_convolutions(size: int) -> Region:
    """Windows of three rows, so that who makes rows also reads those of neighbours."""
    shape = (1, 32, size, size)
    chain = [replace(convolution(shape, (32, 3, 3), pads=(1, 1, 1, 1)), name=f"c{k}") for k in range(3)]
    bound = tuple(Bound(one, {"x": x, "y": y}) for one, x, y in zip(chain, "xtu", "tuy", strict=True))
    return Region("three", {name: Shape(*shape) for name in "xtuy"}, ("x",), ("y",), bound, {})


@pytest.mark.parametrize("streams", [1, 2, pytest.param(3, marks=pytest.mark.nightly), 8, 32])
def test_streams_share_every_operation_and_meet_where_they_read_each_others_rows(streams: int) -> None:
    machine = load_machine("stcp920")
    compiled = compile_region(machine, load_kernels(machine), three_convolutions(24), Options(streams=streams, timed_streams=False))
    assert all(proven(compiled, machine, seed) for seed in (None, 1, 2))
    assert compiled.checked.warnings == ()
    busy = np.unique(compiled.program.stream[compiled.owner >= 0])
    assert len(busy) == streams if streams <= 8 else len(busy) > 8
    waits = [machine.instructions[kind].name for kind in compiled.program.kind.tolist()].count("WAIT")
    assert (waits > 0) == (streams > 1)
    for label, owner in zip(compiled.listing, compiled.owner.tolist(), strict=True):
        assert label.split()[0] == f"c{owner}" if owner >= 0 else label in ("", "end")


def test_four_cores_are_faster_than_one() -> None:
    machine, region = load_machine("stcp920"), three_convolutions(48)
    ways = [Options(streams=count, timed_streams=False, resident=False, grouped=False) for count in (1, 4)]
    one, four = (compile_region(machine, load_kernels(machine), region, way) for way in ways)
    assert four.cycles < 0.5 * one.cycles


def test_tensors_on_chip_are_not_shared_by_streams() -> None:
    machine = load_machine("stcp920")
    kernels, region = load_kernels(machine), two_convolutions()
    schedule = find_schedule(machine, kernels, region)
    assert schedule.buffers
    shared = replace(schedule, groups=(schedule.groups[0], replace(schedule.groups[1], streams=(Share(1, 1),))))
    with pytest.raises(UserError, match="E1404 't' cannot stay on chip: 2 streams make or read it, and each has a 'l1' of its own"):
        compile_region(machine, kernels, region, None, shared)


def block(size: int, channels: int = 16) -> Region:
    """Two convolutions in a row and the sum of the first's result and the second's."""
    shape = (4, channels, size, size)
    first, second = (replace(convolution(shape, (channels, 1, 1), k, 500), name=f"c{k}") for k in (0, 1))
    total = made.add("sum", shape, 1, 1, made.Requantise(1, 0, 127))
    bound = Bound(first, {"x": "x", "y": "a"}), Bound(second, {"x": "a", "y": "b"}), Bound(total, {"x": "a", "z": "b", "y": "y"})
    last = Bound(replace(convolution(shape, (channels, 1, 1), 2, 500), name="last"), {"x": "y", "y": "out"})
    return Region("block", {name: Shape(*shape) for name in ("x", "a", "b", "y", "out")}, ("x",), ("out",), (*bound, last), {})


def test_tensors_stay_on_chip_and_the_result_is_the_same() -> None:
    machine, kernels = MACHINES["dpuv3"], KERNELS["dpuv3"]
    kept, moved = (compile_region(machine, kernels, block(20), Options(resident=resident)) for resident in (True, False))
    assert set(kept.map.tensors) == {"x", "out"}
    assert kept.map.segments["swap"].bytes == 0 < moved.map.segments["swap"].bytes
    assert kept.cycles < 0.8 * moved.cycles
    assert proven(kept, machine)
    assert proven(moved, machine)


def test_a_sum_is_made_over_its_operand() -> None:
    compiled = compile_region(MACHINES["dpuv3"], KERNELS["dpuv3"], block(64, 32))
    one = 64 // 8 * 64 * 2
    assert compiled.peak["fm"] < 3 * one
    assert set(compiled.map.tensors) == {"x", "out"}
    assert proven(compiled, MACHINES["dpuv3"])


def test_tiles_leave_the_neighbours_tensors_alone() -> None:
    """The first operation's tiles of the input would lie where the second one stores its result, which would wait for the last of them."""
    machine = MACHINES["dpuv3"]
    compiled = compile_region(machine, KERNELS["dpuv3"], block(56, 64), Options(grouped=False))
    first = compiled.schedule.groups[0].operations[0]
    tiles = [slot for slots in first.slots.values() if not isinstance(slots, int) for slot in slots]
    near = {buffer.tensor: buffer for buffer in compiled.schedule.buffers if buffer.tensor in ("a", "b")}
    assert set(near) == {"a", "b"}
    assert tiles
    depth = 7 * 56 * 4
    for buffer in near.values():
        assert not any(slot.bank == buffer.slot.bank and buffer.slot.address <= slot.address < buffer.slot.address + depth for slot in tiles)
    assert proven(compiled, machine)


def test_what_finds_no_room_goes_through_dram() -> None:
    machine = MACHINES["dpuv3"]
    compiled = compile_region(machine, KERNELS["dpuv3"], block(260), Options(grouped=False))
    assert set(compiled.map.tensors) == {"x", "a", "b", "y", "out"}
    assert proven(compiled, machine)


def test_every_tensor_can_be_stored_to_be_looked_at() -> None:
    machine, region = MACHINES["dpuv3"], block(12)
    compiled = compile_region(machine, KERNELS["dpuv3"], region, Options(stored=True))
    inputs = images(region)
    state, wanted = compiled.state(inputs), expected(region, inputs, machine.quantisation or Numerics())
    for index, bound in enumerate(region.operations):
        who: list[int] = np.flatnonzero(compiled.owner[compiled.order] == index).tolist()
        engine_named("fast")(compiled.program, state, compiled.order[who[0] : who[-1] + 1])
        assert np.array_equal(compiled.result(state, bound.tensors["y"]), wanted[bound.tensors["y"]]), bound.operation.name


def digests() -> list[str]:
    """Of all that becomes of two regions."""
    found = []
    for c in (compiled_two(), compile_region(MACHINES["dpuv3"], KERNELS["dpuv3"], block(12))):
        parts = [c.program.streams[0], *c.constants.values(), json.dumps(c.map.plain()).encode(), repr(c.listing).encode()]
        found.append(hashlib.sha256(b"".join(parts)).hexdigest())
    return found


def test_another_hash_seed_gives_the_same_bytes() -> None:
    assert printed_elsewhere("from tests.schedule.test_compile_region import digests; print(digests())") == f"{digests()}\n"
