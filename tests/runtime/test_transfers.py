"""Samples come back from the buffers that they were packed into; those that are missing are zeros; neighbours share a buffer.

Where states are between steps follows from the plan: which regions and which host segments read and make them. NaN in an input that becomes integers
is an error with its place; other inputs, and infinities, run as they always did.
"""

from dataclasses import dataclass, replace
from functools import cache, cached_property
from operator import attrgetter
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import helper, parser

from bench.in_process import Compiled, Target
from tests import steps_network
from tests.c_networks import pictures, plain_network
from tests.compiled_network import compile_network
from tests.graph.onnx_builder import model
from tests.runtime.small import bundle, images
from tests.runtime.test_executor import opened
from tests.steps_network import HELD, built
from toolchain.abi.dram_map import DramMap, Segment, Shape, StoredTensor, host_axes
from toolchain.abi.packing import view_packing
from toolchain.graph.session import open_session, run_session
from toolchain.runtime.contents import HostSegment, Interface, Manifest, PlanStep, Port, RegionProgram, State, step_of
from toolchain.runtime.timing import modelled, region_time
from toolchain.runtime.transfers import (
    HandedOver,
    StatePlace,
    StoredImage,
    array_of,
    buffer_of,
    bytes_as_stored,
    check_numbers,
    handed_over,
    integer_inputs,
    is_entering,
    is_leaving,
    join_images,
    on_the_host,
    pack,
    split_images,
    state_places,
    unpack,
)
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine, RegionLimits

TARGETS = ["vta", "dpuv3", "clib"]


@dataclass(frozen=True)
class Cut(Target):
    """A machine whose regions have one operation."""

    @cached_property
    def machine(self) -> Machine:
        return replace(load_machine(self.name), limits=RegionLimits(operations=1))


@cache
def cut(target: str) -> Compiled:
    """The plain network in a region for each operation."""
    return compile_network(plain_network(), "plain", Cut(target), pictures(4))


@pytest.mark.drawn(2)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("count", [1, 5])
def test_results_are_those_of_the_integer_network(target: str, count: int) -> None:
    """Five samples fill dpuv3's runs of four images and one more, with three images that are not there."""
    found, samples = cut(target), pictures(count)[:, 0]
    assert found.regions >= 5
    session = open_session(found.integer, optimise=False)
    expected = np.concatenate([run_session(session, {"x": sample[None]})["y"] for sample in samples])
    assert np.array_equal(found.executor.run({"x": samples}).outputs["y"], expected)


@pytest.mark.parametrize("target", TARGETS)
def test_tensors_between_regions_keep_their_form(target: str) -> None:
    manifest = cut(target).bundle.manifest
    handed = handed_over(cut(target).executor.machines, manifest)
    read, made = ({port.name for region in manifest.regions for port in side(region)} for side in (attrgetter("inputs"), attrgetter("outputs")))
    between = read & made
    assert set().union(*handed.kept.values()) == set().union(*handed.taken.values()) == between
    assert len(between) >= 4


def test_a_region_gets_the_very_bytes_that_another_left() -> None:
    executor = cut("dpuv3").executor
    first, *others = executor.manifest.regions
    engines = dict(zip([region.name for region in executor.manifest.regions], executor.engines, strict=True))
    names = [port.name for port in first.inputs]
    given = [{name: np.full(first.inputs[0].shape, k, np.int8) for name in names} for k in range(3)]
    kept = [port.name for port in first.outputs]
    made, _ = engines[first.name].run(given, kept)
    arrays, _ = engines[first.name].run(given)
    assert all(isinstance(sample[kept[0]], StoredImage) for sample in made)
    assert all(np.array_equal(array_of(one[kept[0]]), other[kept[0]]) for one, other in zip(made, arrays, strict=True))
    reader, port = next((region, port) for region in others for port in region.inputs if port.name == kept[0])
    values = [sample[kept[0]] for sample in made]
    stored = bytes_as_stored(reader, port, values)
    assert stored is not None
    assert isinstance(values[0], StoredImage)
    assert stored is values[0].result.data
    assert bytes_as_stored(reader, port, values[::-1]) is None  # other images in other places
    assert bytes_as_stored(reader, port, [values[0], array_of(values[1])]) is None
    assert bytes_as_stored(reader, port, [array_of(value) for value in values]) is None


def test_what_the_host_reads_as_well_is_still_unpacked() -> None:
    """Every tensor between regions is an output of the plan, too: results stay, and all count as rearranged."""
    manifest, machines = cut("dpuv3").bundle.manifest, cut("dpuv3").executor.machines
    name = next(iter(set().union(*handed_over(machines, manifest).kept.values())))
    read = replace(manifest, outputs=(*manifest.outputs, replace(manifest.outputs[0], name=name)))
    assert name in set().union(*handed_over(machines, read).kept.values())
    assert name not in set().union(*handed_over(machines, read).whole.values())
    watched = cut("dpuv3").executor.run({"x": pictures(2)[:, 0]}, watch=[name]).watched[name]
    assert watched.dtype == np.int8
    assert watched.shape[0] == 2


def test_rearranging_that_cancels_costs_nothing() -> None:
    executor = cut("dpuv3").executor
    machine, manifest = executor.machine, executor.manifest
    borders = [{port.name: region.map.tensors[port.tensor] for port in (*region.inputs, *region.outputs)} for region in manifest.regions]
    every = [region_time(machine, 1, 1, border) for border in borders]
    found = modelled({machine.name: machine}, manifest)
    assert found.transfer_ms is not None
    assert found.transfer_ms < sum(time.transfer_ms for time in every)
    handed = handed_over(executor.machines, manifest)
    assert isinstance(handed, HandedOver)
    assert handed.whole == handed.kept


MACHINES = {name: load_machine(name) for name in ("vta", "dpuv3")}
STORED = {"vta": ("dram", "dram.inp"), "dpuv3": ("ddr", "ddr.word")}


def region(target: str, batch: int, shape: Shape, channels: tuple[int, ...]) -> RegionProgram:
    """Tensors t0, t1, ... side by side in one buffer, each of them an input and an output. batch: of the graph. shape: of the whole buffer."""
    machine, (memory, view) = MACHINES[target], STORED[target]
    layout = next(item for item in machine.layouts if item.name == "activations")
    extents = tuple(shape[axis] for axis in host_axes(layout))
    size = view_packing(machine, view, layout.name, extents).bytes
    tensors: dict[str, StoredTensor] = {}
    ports: list[Port] = []
    first = 0
    for number, count in enumerate(channels):
        own = Shape(shape.batch, count, shape.height, shape.width)
        tensors[f"t{number}"] = StoredTensor(own, "s", 4096, size, view, layout.name, extents, first)
        ports.append(Port(f"graph{number}", f"t{number}", (batch, *own[1:])))
        first += count
    held = DramMap(memory, "", {"s": Segment(8192, 4096 + size)}, tensors, tuple(tensors), tuple(tensors))
    return RegionProgram("r", "vta", shape.batch, "", "", "", held, tuple(ports), tuple(ports), {}, 0.0, {}, "")


def tensors(program: RegionProgram, count: int, seed: int = 0) -> list[dict[str, NDArray[Any]]]:
    rng = np.random.default_rng(seed)
    return [{port.name: rng.integers(-128, 128, port.shape, np.int8) for port in program.inputs} for _ in range(count)]


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_what_is_packed_is_unpacked(data: st.DataObject) -> None:
    target = data.draw(st.sampled_from(sorted(MACHINES)))
    images, batch, height, width = (data.draw(st.integers(1, most)) for most in (4, 3, 5, 5))
    parts = data.draw(st.sampled_from([(16, 16), (16, 32, 3), (5,), (33,)]))
    program = region(target, batch, Shape(images, sum(parts), height, width), parts)
    given_ = tensors(program, data.draw(st.integers(1, 3)))
    every = split_images(program, given_)
    made = []
    for first in range(0, len(every), images):
        part = every[first : first + images]
        buffers = pack(MACHINES[target], program, part)
        assert list(buffers) == [buffer_of(program.map, "t0")]
        found = unpack(MACHINES[target], program, buffers, images)
        made += found[: len(part)]
        assert not any(array.any() for image in found[len(part) :] for array in image.values())
    joined = join_images(program, made)
    assert len(joined) == len(given_)
    assert all(np.array_equal(joined[k][name], array) for k, sample in enumerate(given_) for name, array in sample.items())


def test_a_flat_tensor_is_a_picture_to_the_region() -> None:
    program = region("vta", 1, Shape(1, 10, 1, 1), (10,))
    flat = RegionProgram(**{**vars(program), "inputs": (Port("graph0", "t0", (1, 10)),), "outputs": (Port("graph0", "t0", (1, 10)),)})
    values = np.arange(10, dtype=np.int8).reshape(1, 10)
    (found,) = unpack(MACHINES["vta"], flat, pack(MACHINES["vta"], flat, [{"graph0": values}]), 1)
    assert np.array_equal(found["graph0"], values)
    assert found["graph0"].shape == (1, 10)


@pytest.mark.parametrize("values", [np.zeros((1, 11), np.int8), np.full((1, 10, 1, 1), 200, np.int16), np.full((1, 10, 1, 1), 0.5, np.float32)])
def test_what_does_not_fit_is_one_line(values: NDArray[Any]) -> None:
    program = region("vta", 1, Shape(1, 10, 1, 1), (10,))
    with pytest.raises(UserError, match="E1104 the tensor 'graph0' does not fit region 'r'"):
        pack(MACHINES["vta"], program, [{"graph0": values}])


def places(target: str, manifest: Manifest | None = None) -> dict[str, StatePlace]:
    executor = built(target).executor()
    return {place.state.input: place for place in state_places(executor.machines, manifest or executor.manifest)}


@pytest.mark.drawn(1)
@pytest.mark.parametrize(("target", "stored"), [("gemmini", HELD), ("vta", HELD), ("dpuv3", 4 * HELD)])
def test_a_state_of_one_region_stays_on_the_device(target: str, stored: int) -> None:
    found = places(target)["h"]
    assert (found.place, found.region, found.bytes, found.moved, found.watched) == ("device", 0, stored, 0, False)


def test_a_state_of_the_host_is_an_array_there() -> None:
    found = places("vta")["count"]
    assert (found.place, found.region, found.bytes, found.moved) == ("host", -1, 8, 0)


def test_a_device_that_keeps_no_tensors_has_it_copied_both_ways() -> None:
    found = on_the_host(places("vta")["h"])
    assert (found.place, found.region, found.moved) == ("stored", -1, 2 * HELD)
    assert on_the_host(found) == found


def test_conversions_are_steps_of_their_own_at_both_ends() -> None:
    manifest = built("vta").bundle.manifest
    runs = [step_of(manifest, step) for step in manifest.plan]
    assert [is_entering(manifest, run) for run in runs] == [True, *[False] * (len(runs) - 1)]
    assert [is_leaving(manifest, run) for run in runs] == [*[False] * (len(runs) - 1), True]


def test_a_state_that_the_host_reads_within_the_step_is_copied_to_it() -> None:
    manifest = built("vta").bundle.manifest
    reader = HostSegment(manifest.hosts[0].model, ("next_h.int8",), ("seen",), {})
    read = replace(manifest, hosts=(*manifest.hosts, reader), plan=(*manifest.plan, PlanStep("host", len(manifest.hosts))))
    found = places("vta", read)["h"]
    assert (found.place, found.watched, found.moved) == ("device", True, HELD)


def test_a_state_that_the_host_reads_before_the_region_is_kept_as_stored() -> None:
    manifest = built("vta").bundle.manifest
    reader = HostSegment(manifest.hosts[0].model, ("h.int8",), ("seen",), {})
    found = places("vta", replace(manifest, hosts=(*manifest.hosts, reader)))["h"]
    assert (found.place, found.moved) == ("stored", 2 * HELD)


def test_a_state_in_floating_point_is_an_array_of_the_host() -> None:
    manifest = built("vta").bundle.manifest
    found = places("vta", replace(manifest, states=(State("h", "next_h", "h", "next_h"),)))["h"]
    assert (found.place, found.bytes, found.moved) == ("host", 4 * HELD, 0)


TEXT = """<ir_version: 10, opset_import: ["": 21, "tilewright.integer.toy" : 1]>
host (float[4] straight, float[4] moved, float[4] asked, float[4] halves, int64[4] whole) => (int8[4] a) {
  a = tilewright.integer.toy.quantize <scale = 0.5> (straight)
  two = Constant <value = float {2.0}> ()
  half = Div (moved, two)
  turned = Transpose (half)
  b = tilewright.integer.toy.quantize <scale = 0.5> (turned)
  unknown = IsNaN (asked)
  known = Where (unknown, two, asked)
  c = tilewright.integer.toy.quantize <scale = 0.5> (known)
  d = tilewright.integer.toy.quantize (halves)
}"""


def segment() -> onnx.ModelProto:
    return parser.parse_model(TEXT)


def entries() -> list[Interface]:
    return [Interface(each.name, (4,), "int64" if each.name == "whole" else "float32") for each in segment().graph.input]


def test_inputs_that_are_stored_as_they_are_or_after_operators_that_keep_nan() -> None:
    assert integer_inputs(entries(), [segment()]) == {"straight", "moved"}
    assert integer_inputs(entries(), []) == frozenset()


def test_tensors_pass_from_one_segment_to_the_next() -> None:
    first, last = segment(), segment()
    del first.graph.node[3:], last.graph.node[:3]
    assert integer_inputs(entries(), [first, last]) == {"straight", "moved"}
    assert integer_inputs(entries(), [last]) == frozenset()


def test_the_place_of_the_first_is_named_and_the_others_are_counted() -> None:
    array = np.zeros((2, 3), np.float32)
    array[1, 2] = np.nan
    with pytest.raises(UserError, match=r"^E1134 the input 'x' holds NaN at \[1, 2\], and becomes integers, which have no such number; mend"):
        check_numbers({"x": array, "y": array}, frozenset({"x"}))
    array[0, 1] = np.nan
    with pytest.raises(UserError, match=r"holds NaN at \[0, 1\], .*; so does 1 more place;"):
        check_numbers({"x": array}, frozenset({"x"}))
    check_numbers({"x": np.full(3, np.inf, np.float32), "y": array}, frozenset({"x", "z"}))


@pytest.mark.parametrize("target", ["vta", "dpuv3"])
def test_a_bundle_of_integers_refuses_nan_and_takes_infinities(target: str) -> None:
    executor, given = opened(target, bundle(target)), images(3)
    assert executor.integers == {"x"}
    given[2, 0, 1, 1] = np.inf
    greatest = given.copy()
    greatest[2, 0, 1, 1] = np.finfo(np.float32).max
    found, wanted = (executor.run({"x": each}).outputs for each in (given, greatest))
    assert all(np.array_equal(found[name], wanted[name]) for name in wanted)
    given[2, 0, 1, 1] = np.nan
    with pytest.raises(UserError, match=r"E1134 the input 'x' holds NaN at \[2, 0, 1, 1\]"):
        executor.run({"x": given})
    with pytest.raises(UserError, match=r"E1134 the input 'x' holds NaN at \[2, 0, 0, 1, 1\]"):
        executor.run_samples({"x": given[:, None]})


def test_a_machine_of_floats_takes_nan() -> None:
    pool = helper.make_node("MaxPool", ["x"], ["y"], "pool", kernel_shape=[2, 2])
    proto = model([pool], {"x": [1, 4, 4, 4]}, {"y": [1, 4, 3, 3]})
    for target in ("clib32", "stcp920:f16"):
        executor = compile_network(proto, "floats", Target(target), np.ones((1, 1, 4, 4, 4), np.float32)).executor
        assert executor.integers == frozenset()
        assert np.isnan(executor.run({"x": np.full((1, 4, 4, 4), np.nan, np.float32)}).outputs["y"]).all()


def test_a_step_with_nan_is_not_taken() -> None:
    session, (inputs, wanted) = steps_network.built("vta").session(), steps_network.built("vta").oracle()[0]
    with pytest.raises(UserError, match=r"E1134 the input 'x' holds NaN at \[1, 3\]"):
        session.run({"x": np.where(np.arange(32).reshape(2, 16) == 19, np.nan, inputs["x"]).astype(np.float32)})
    assert session.steps == 0
    with pytest.raises(UserError, match="E1134"):
        session.step({"x": np.full_like(inputs["x"], np.nan)})
    assert np.array_equal(session.step({"x": inputs["x"]}).outputs["y"], wanted["y"])
