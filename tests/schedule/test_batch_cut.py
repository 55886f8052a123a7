"""The cut of a region into sub-graphs takes least by its prices, computes the same, and survives its file."""

import itertools
import math
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bench.in_process import Compiled, Target
from tests.c_networks import pictures, plain_network
from tests.compiled_network import compile_network
from tests.operations import made
from tests.schedule.many_cores import chip
from toolchain.abi.dram_map import Shape
from toolchain.codegen import RegionCode
from toolchain.codegen.binary import binary_code
from toolchain.graph.regions import region_calls
from toolchain.graph.session import open_session, run_session
from toolchain.runtime.assemble import assemble_bundle
from toolchain.runtime.emulator_device import EmulatorDevice
from toolchain.runtime.executor import Executor, open_bundle
from toolchain.runtime.transfers import handed_over
from toolchain.schedule.batch_cut import (
    Part,
    Parted,
    Parts,
    Subgraph,
    divide,
    divided,
    least_path,
    likeness,
    parts_of,
    read_parts,
    waists,
    write_parts,
)
from toolchain.schedule.batch_ways import Batch, batch_options, copies_for, cuts, stretches
from toolchain.schedule.compile_region import compile_region, estimated_plan, find_schedule, team_cycles
from toolchain.schedule.copies import Copies
from toolchain.schedule.options import Options
from toolchain.schedule.regions.region import Bound, Region, stackable
from toolchain.schedule.workers import Workers
from toolchain.spec.model import Machine


@dataclass(frozen=True)
class Chip(Target):
    """The many-core machine with two clusters of two cores."""

    @cached_property
    def machine(self) -> Machine:
        return chip(2, 2)


@cache
def compiled() -> Compiled:
    return compile_network(plain_network(), "plain", Chip("stcp920"), pictures(4))


def copy_of_model() -> ir.Model:
    return ir.from_proto(ir.to_proto(compiled().partitioned))


def region_of(model: ir.Model) -> Region:
    (call,) = region_calls(model)
    region = TARGET.backend.read(model, call)
    assert isinstance(region, Region)
    return region


TARGET = Chip("stcp920")
WAYS = (Copies(4, 1), Copies(2, 2))
prices = st.floats(0, 100).map(lambda value: round(value, 1))


@pytest.mark.parametrize("ways", [Copies(4, 1), Copies(2, 2), Copies(1, 4), Copies(2, 1)])
def test_one_cluster_tells_how_long_all_take(ways: Copies) -> None:
    """To the cycle where there is one. Of two, each is timed with half of the ports that both share."""
    region, options = region_of(copy_of_model()), Options(effort=0).taking(ways)
    both = compile_region(TARGET.machine, TARGET.kernels, region, options).cycles
    one = team_cycles(TARGET.machine, TARGET.kernels, region, options)
    if ways.times * ways.streams == 2 or ways.times == 1:
        assert one == both
    assert one == pytest.approx(both, rel=0.1)


@given(st.integers(1, 5).flatmap(lambda count: st.tuples(*(st.lists(prices, min_size=count, max_size=count) for _ in WAYS))), prices, st.data())
def test_no_other_path_costs_less(cycles: tuple[list[float], ...], start: float, data: st.DataObject) -> None:
    """All assignments of ways to operations are tried; one may change only where the region can be cut."""
    found, starts = dict(zip(WAYS, cycles, strict=True)), {WAYS[0]: start, WAYS[1]: 2 * start}
    places = data.draw(st.sets(st.integers(0, len(cycles[0]) - 2)) if len(cycles[0]) > 1 else st.just(set[int]()))
    crossing = {place: data.draw(prices) for place in sorted(places)}

    def cost(ways: tuple[Copies, ...]) -> float:
        total = starts[ways[0]] + sum(found[way][index] for index, way in enumerate(ways))
        changes = [(index, after) for index, (before, after) in enumerate(itertools.pairwise(ways)) if before != after]
        return total + sum(crossing.get(index, math.inf) + starts[after] for index, after in changes)

    path = least_path(found, starts, crossing)
    taken = tuple(each.copies for each in path for _ in each.operations)
    assert [index for each in path for index in each.operations] == list(range(len(cycles[0])))
    assert cost(taken) == pytest.approx(min(map(cost, itertools.product(WAYS, repeat=len(cycles[0])))))
    assert sum(each.cycles for each in path) == pytest.approx(sum(found[way][index] for index, way in enumerate(taken)))


def test_waists_are_between_blocks() -> None:
    """Behind operations of a residual block two tensors cross, at one place inside a little less than beside it."""
    block = (4, 5, 5, 8)
    crossing = dict(enumerate((*block, *block, *block, 3, 3)))
    assert waists(crossing) == [0, 4, 8, 12, 13]
    assert waists({}) == []
    assert waists({7: 1}) == [7]


def outputs(parts: Parts, samples: NDArray[Any]) -> tuple[NDArray[Any], Executor]:
    """What a bundle with these sub-graphs gives for samples, and its executor."""
    machine, model = TARGET.machine, divided(copy_of_model(), read_parts(write_parts(parts)))
    calls, (own_parts,) = region_calls(model), parts.values()
    assert [call.op_type for call in calls] == [part.region for part in own_parts]
    code: dict[str, RegionCode] = {}
    for call, part in zip(calls, own_parts, strict=True):
        own = TARGET.backend.read(model, call)
        assert isinstance(own, Region)
        assert [bound.tensors["y"] for bound in own.operations] == list(part.results)
        options = Options(copies=part.copies, streams=part.streams, images=part.images, effort=0)
        code[part.region] = binary_code(compile_region(machine, TARGET.kernels, own, options))
    executor = open_bundle(assemble_bundle("plain", [machine], model, code), machine, EmulatorDevice(), optimise=False)
    return executor.run({"x": samples}).outputs["y"], executor


def expected(samples: NDArray[Any]) -> NDArray[Any]:
    session = open_session(compiled().integer, optimise=False)
    return np.concatenate([run_session(session, {"x": sample[None]})["y"] for sample in samples])


@pytest.mark.parametrize("count", [1, 6])
def test_sub_graphs_with_images_and_cores_of_their_own_compute_the_same(count: int) -> None:
    """The second one takes four images at once, the first two, on two cores each; one run is not full. Tensors between them keep their form."""
    region = region_of(copy_of_model())
    cut = sorted(cuts(region))[1]
    names = [bound.tensors["y"] for bound in region.operations]
    parts = {region.name: (Part("first", 2, 2, tuple(names[: cut + 1])), Part("second", 4, 1, tuple(names[cut + 1 :])))}
    samples = pictures(count)[:, 0]
    found, executor = outputs(parts, samples)
    assert np.array_equal(found, expected(samples))
    assert executor.run({"x": samples}).runs == (2 if count == 1 else 5)  # of six images: of the first two and one, of the second one and one
    assert handed_over(executor.machines, executor.manifest).kept["first"]


@pytest.mark.parametrize("count", [1, 7])
def test_a_sub_graph_with_images_as_rows_computes_the_same(count: int) -> None:
    """A convolution of one pixel and a sum have three images behind each other in each of two copies; their second run is not full."""
    region = region_of(copy_of_model())
    (rows,) = stretches(region)
    names = [bound.tensors["y"] for bound in region.operations]
    cut = names[: rows.start], names[rows.start : rows.stop], names[rows.stop :]
    ways = Copies(4, 1), Copies(2, 2, 3), Copies(4, 1)
    parts = {region.name: tuple(Part(f"part{n}", w.times, w.streams, tuple(own), w.images) for n, (w, own) in enumerate(zip(ways, cut, strict=True)))}
    samples = pictures(count)[:, 0]
    found, executor = outputs(parts, samples)
    assert np.array_equal(found, expected(samples))
    assert [each.images for each in executor.manifest.regions] == [4, 6, 4]
    assert executor.run({"x": samples}).runs == (3 if count == 1 else 8)  # six images, in two, one and two runs; then one in three


@pytest.mark.parametrize("count", [1, 7])
def test_sub_graphs_with_images_beside_each_other_compute_the_same(count: int) -> None:
    """Convolutions over rows have three images in each tensor of two copies, those behind them two in each of two."""
    region = region_of(copy_of_model())
    cut = sorted(cuts(region))[1]
    names = [bound.tensors["y"] for bound in region.operations]
    assert not all(map(stackable, region.operations[: cut + 1]))
    parts = {region.name: (Part("first", 2, 2, tuple(names[: cut + 1]), 3), Part("second", 2, 1, tuple(names[cut + 1 :]), 2))}
    samples = pictures(count)[:, 0]
    found, executor = outputs(parts, samples)
    assert np.array_equal(found, expected(samples))
    assert [each.images for each in executor.manifest.regions] == [6, 4]


@settings(max_examples=8, deadline=None)
@given(st.data())
def test_any_cut_leaves_the_network_as_it_is(data: st.DataObject) -> None:
    model = copy_of_model()
    region = region_of(model)
    places = sorted(data.draw(st.sets(st.sampled_from(sorted(cuts(region))), min_size=1)))
    names = [bound.tensors["y"] for bound in region.operations]
    bounds = itertools.pairwise([0, *(place + 1 for place in places), len(names)])
    parts = tuple(Part(f"part{first}", 1, 1, tuple(names[first:stop])) for first, stop in bounds)
    model = divided(model, {region.name: parts})
    regions = [TARGET.backend.read(model, call) for call in region_calls(model)]
    assert [each.name for each in regions] == [part.region for part in parts]
    sample = {"x": pictures(1)[0]}
    before, after = (
        run_session(open_session(ir.to_proto(each).SerializeToString(), optimise=False), sample)["y"] for each in (copy_of_model(), model)
    )
    assert np.array_equal(before, after)


def test_rows_of_a_batch_load_weights_once() -> None:
    """A layer whose weights are most of what moves takes all images as rows; the cut with them is the quicker one of two programs."""
    weight, bias = np.ones((256, 256, 1, 1), np.int8), np.zeros(256, np.int32)
    shape = Shape(1, 256, 1, 1)
    layer = Bound(made.conv2d("layer", shape, weight, bias, shift=6), {"x": "x", "y": "y"})
    region = Region("r", {"x": shape, "y": shape}, ("x",), ("y",), (layer,), {})
    found = divide(Batch(TARGET.machine, TARGET.kernels, 64), region)
    (part,) = found.subgraphs
    assert part.copies.together == 64
    assert part.copies.images > 1
    assert [each.images for each in parts_of(region, found)] == [part.copies.images]
    alone = min((each for each in found.tried if each.copies.images == 1), key=lambda each: each.cycles)
    assert 4 * found.cycles < alone.cycles


def test_the_division_of_a_batch() -> None:
    """Launches are dear for so small a network, so that it stays whole; where they cost nothing, no division is dearer than none."""
    region, machine = region_of(copy_of_model()), TARGET.machine
    whole = divide(Batch(machine, TARGET.kernels, 8), region)
    assert len(whole.subgraphs) == 1
    assert [part.region for part in parts_of(region, whole)] == [region.name]
    assert machine.host is not None
    free = replace(machine, host=replace(machine.host, launch_us=replace(machine.host.launch_us, value=0)))
    found = divide(Batch(free, TARGET.kernels, 8), region)
    assert found.cycles <= found.uniform <= whole.uniform
    assert [each.copies for each in whole.tried if each.copies.images == 1] == list(copies_for(machine, 8))  # all have room
    assert {each.launches for each in found.tried} == {0.0}
    assert whole.cycles in {each.cycles for each in whole.tried}
    assert [each.cycles for each in found.tried] == [each.cycles for each in whole.tried]
    parts = parts_of(region, found)
    assert [name for part in parts for name in part.results] == [bound.tensors["y"] for bound in region.operations]


@pytest.mark.parametrize("resident", [True, False])
def test_a_plan_by_estimates_obeys_the_options(resident: bool) -> None:
    """Without tensors on chip each of them goes through DRAM."""
    region, options = region_of(copy_of_model()), Options(copies=2, effort=0, resident=resident, grouped=resident)
    plan = estimated_plan(TARGET.machine, TARGET.kernels, region, options)
    schedule = find_schedule(TARGET.machine, TARGET.kernels, region, options)
    assert bool(schedule.buffers) == resident
    assert bool(plan.residents.candidates or plan.shared) == resident
    assert schedule.multicast
    assert schedule.copies == Copies(2, 1)


def test_regions_alike_but_for_names_have_one_likeness() -> None:
    region, machine = region_of(copy_of_model()), TARGET.machine
    named = {name: f"other.{name}" for name in region.tensors}
    bound = tuple(replace(each, tensors={place: named[name] for place, name in each.tensors.items()}) for each in region.operations)
    other = replace(
        region, name="other", operations=bound, tensors={named[name]: shape for name, shape in region.tensors.items()},
        inputs=tuple(map(named.__getitem__, region.inputs)), outputs=tuple(map(named.__getitem__, region.outputs)),
        slices={named[name]: replace(own, parent=named[own.parent]) for name, own in region.slices.items()},
    )  # fmt: skip
    assert likeness(machine, TARGET.kernels, region) == likeness(machine, TARGET.kernels, other)
    assert likeness(machine, TARGET.kernels, region) != likeness(machine, TARGET.kernels, replace(region, operations=region.operations[:-1]))
    number, added = next((n, each) for n, each in enumerate(region.operations) if each.operation.kind.name == "add")
    for name, same in (("multiply_x", True), ("channels", False)):  # layers of a transformer differ in scales
        numbers = {**added.operation.numbers, name: added.operation.numbers[name] + 1}
        changed = replace(added, operation=replace(added.operation, numbers=numbers))
        operations = (*region.operations[:number], changed, *region.operations[number + 1 :])
        assert (likeness(machine, TARGET.kernels, region) == likeness(machine, TARGET.kernels, replace(region, operations=operations))) == same


@pytest.mark.parametrize("text", ["", "[]", '{"region0": [{}]}', '{"region0": [{"region": "a", "copies": "2", "streams": 1, "results": []}]}'])
def test_other_texts_are_no_sub_graphs(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        read_parts(text)


def test_a_cut_that_has_lost_is_not_timed_to_its_end() -> None:
    """The longest sub-graph comes first, so one program decides."""
    region = region_of(copy_of_model())
    count, copies = len(region.operations), Copies(4, 1)
    batch = Batch(TARGET.machine, TARGET.kernels, 8)
    whole, first, rest = range(count), range(1), range(1, count)
    timed = {(whole, copies): 10.0, (first, copies): 5.0, (rest, copies): 20.0}
    parted = Parted(batch, region, {}, timed=dict(timed))
    one, two = (Subgraph(whole, copies, 9.0),), (Subgraph(first, copies, 1.0), Subgraph(rest, copies, 2.0))
    del parted.timed[first, copies]
    assert parted.quickest([one, two], {copies: 1.0}) == one
    assert (first, copies) not in parted.timed
    parted.timed[first, copies], parted.timed[rest, copies] = 5.0, 3.0
    assert parted.quickest([one, two], {copies: 1.0}) == two


def test_a_batch_is_cut_alike_by_one_process_and_by_two() -> None:
    """Free launches, so that several cuts are timed."""
    region, machine = region_of(copy_of_model()), TARGET.machine
    assert machine.host is not None
    free = replace(machine, host=replace(machine.host, launch_us=replace(machine.host.launch_us, value=0)))
    alone = divide(Batch(free, TARGET.kernels, 8), region)
    with Workers(2, patience_seconds=0) as workers:
        assert divide(Batch(free, TARGET.kernels, 8, batch_options(workers)), region) == alone
