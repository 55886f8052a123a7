"""Which tensors the host can write in any layout: those that a single operation reads and that are no part of others. A part of a region
computes what it computes in the whole, whatever is cut out.

Several images in each tensor, as rows or along the axis of images: such a region computes what each image gives alone, on every machine, in copies
too.
"""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.operations import made
from tests.schedule.form.edits import read
from tests.schedule.made_regions import Builder, expected
from tests.schedule.many_cores import chip
from tests.schedule.search.made_graphs import inception
from tests.schedule.test_compile_region import images
from toolchain.abi.dram_map import Shape
from toolchain.emulator import engine_named
from toolchain.runtime.device import check_map
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.copies import Copies
from toolchain.schedule.form.files import write_schedule
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options
from toolchain.schedule.program import CompiledRegion
from toolchain.schedule.regions import region as region_module
from toolchain.schedule.regions.lowering import channel_block
from toolchain.schedule.regions.region import Bound, Region, Slice, part_of_region, stackable, stacked
from toolchain.schedule.search.cover import is_convex, operation_graph
from toolchain.spec.arrays import Array
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine
from toolchain.spec.model.quantisation import Numerics

SHAPE = Shape(1, 16, 4, 4)

KINDS = {"conv2d", "add", "max_pool", "average_pool", "depthwise", "upsample"}


def region(*operations: Bound, **more: object) -> Region:
    names = dict.fromkeys(["a", "b", "c", "d", "e"], SHAPE)
    given: dict[str, object] = {"inputs": ("a", "b"), "outputs": ("e",), "slices": {}} | more
    return Region("r", names, operations=operations, **given)  # type: ignore[arg-type]


def add(x: str, z: str, y: str) -> Bound:
    return Bound(made.add(y, SHAPE), {"x": x, "z": z, "y": y})


def test_an_input_with_one_reader_is_its_own() -> None:
    assert region(add("a", "b", "e")).alone(add("a", "b", "e")) == ["x", "z"]


def test_what_is_read_twice_or_made_here_is_not() -> None:
    up = Bound(made.upsample("d", SHAPE, (1, 1)), {"x": "a", "y": "d"})
    found = region(up, add("a", "d", "c"), add("b", "b", "e"))
    assert [found.alone(bound) for bound in found.operations] == [[], [], []]


def test_what_leaves_again_or_is_part_of_another_is_not() -> None:
    assert region(add("a", "b", "e"), outputs=("a", "e")).alone(add("a", "b", "e")) == ["z"]
    assert region(add("a", "b", "e"), slices={"b": Slice("c", 0)}).alone(add("a", "b", "e")) == ["x"]


@given(st.integers(0, 1 << 20), st.integers(2, 9), st.integers(1, 1 << 9))
def test_results_of_a_part_are_those_of_the_whole(seed: int, steps: int, mask: int) -> None:
    region = Builder(np.random.default_rng(seed), KINDS).region(steps)
    members = [index for index in range(len(region.operations)) if mask >> index & 1]
    if not members or not is_convex(operation_graph(region), members):
        return
    rng = np.random.default_rng(seed)
    whole = expected(region, {name: rng.integers(-128, 128, tuple(region.tensors[name]), np.int8) for name in region.inputs}, Numerics())
    part = part_of_region(region, members)
    found = expected(part, {name: whole[name] for name in part.inputs}, Numerics())
    assert [bound.operation.name for bound in part.operations] == [region.operations[index].operation.name for index in members]
    assert part.outputs
    for bound in part.operations:
        assert np.array_equal(found[bound.tensors["y"]], whole[bound.tensors["y"]])


def test_operands_from_elsewhere_are_inputs_and_results_for_others_outputs() -> None:
    part = part_of_region(inception(), [2, 3])
    assert (part.inputs, part.outputs) == (("x",), ("b",))
    assert part_of_region(inception(), [0, 2]).outputs == ("x", "b0")


def test_tensors_overlap_where_their_channels_meet() -> None:
    slices = {"b": Slice("a", 0), "c": Slice("a", 16), "d": Slice("c", 8, view=True)}
    names = {"a": Shape(1, 32, 4, 4), "d": Shape(1, 8, 4, 4)}
    found = region(slices=slices)
    whole = Region("r", {**found.tensors, **names}, found.inputs, found.outputs, (), slices)
    meet = {one + other for one in "abcde" for other in "abcde" if one < other and whole.overlap(one, other)}
    assert meet == {"ab", "ac", "ad", "cd"}


@dataclass
class RowBuilder(Builder):
    """Convolutions whose windows have one row, sums, concats and views."""

    def window(self, kind: str) -> None:
        del kind
        source = self.source()
        shape, columns = tuple(self.tensors[source]), int(self.rng.choice([1, 3]))
        weight, bias = self.weights((int(self.rng.choice([16, 32])), shape[1], 1, columns))
        end, pad = self.end(), columns // 2
        options = {"shift": end.shift + 6, "low": end.low, "high": end.high}
        self.put(made.conv2d(f"op{len(self.operations)}", shape, weight, bias, (1, 1), (0, pad, 0, pad), **options), x=source)


def rows_region(seed: int, steps: int, block: int = 16) -> Region:
    while True:
        found = RowBuilder(np.random.default_rng(seed), ["conv2d", "add"], bias=99, block=block).region(steps)
        if found.operations:
            return found
        seed += 1


def one_by_one(array: Array, count: int) -> Array:
    """[count, channels, height, width] of images behind each other as rows."""
    return np.concatenate(np.split(array, count, axis=2))


@cache
def small(name: str) -> Machine:
    return chip(2, 2) if name == "stcp920" else load_machine(name)


@given(st.integers(0, 1 << 30), st.integers(1, 5), st.integers(2, 4))
def test_a_stacked_region_computes_each_image(seed: int, steps: int, count: int) -> None:
    region = rows_region(seed, steps)
    assert all(map(stackable, region.operations))
    found = stacked(region, count)
    assert stacked(found, count) is found
    assert all(found.host_shape(name) == shape._replace(batch=count) for name, shape in region.tensors.items())
    given_to = images(found)
    alone = [expected(region, {name: one_by_one(array, count)[k : k + 1] for name, array in given_to.items()}, Numerics()) for k in range(count)]
    for name, array in expected(found, given_to, Numerics()).items():
        assert np.array_equal(one_by_one(array, count), np.concatenate([own[name] for own in alone]))


Images = dict[str, Array]


def ran(machine: Machine, region: Region, options: Options) -> tuple[CompiledRegion, list[Images], list[Images]] | None:
    """The program of several copies, run: inputs of each copy as they stand in its tensors, and results as the host reads them, image by image. None
    where a kernel refuses the region."""
    try:
        compiled = compile_region(machine, load_kernels(machine), region, options)
    except UserError as error:
        assert error.diagnostics[0].code in ("E1003", "E1004", "E1008"), error  # noqa: PT017 what a kernel refuses is its own matter
        return None
    held, state = compiled.map, compiled.map.state(machine, compiled.constants)
    check_map("r", machine, held, compiled.constants)
    given_to = [images(compiled.region, number) for number in range(options.copies)]
    behind = options.images if compiled.region.as_rows else 1
    for number, own in enumerate(given_to):
        held.room(number).write(machine, state, {name: one_by_one(array, behind) for name, array in own.items()})
    engine_named("fast")(compiled.program, state, compiled.checked.order)
    read = [{name: held.room(number).read(machine, state, name) for name in compiled.region.outputs} for number in range(options.copies)]
    return compiled, given_to, read


@pytest.mark.parametrize(("target", "copies", "streams"), [("vta", 1, 1), ("dpuv3", 1, 1), ("dnnvm", 1, 1), ("stcp920", 2, 2), ("stcp920", 4, 1)])
@settings(max_examples=2, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(1, 3), st.integers(2, 3))
def test_programs_of_stacked_regions_are_exact(target: str, copies: int, streams: int, seed: int, steps: int, count: int) -> None:
    """The host writes and reads images one by one; their shapes stand in the map, whose buffers have all of them as rows."""
    machine = small(target)
    region = rows_region(seed, steps, channel_block(machine))
    if found := ran(machine, region, Options(copies=copies, streams=streams, images=count, effort=0)):
        compiled, given_to, read = found
        assert compiled.region.as_rows
        for own, results in zip(given_to, read, strict=True):
            wanted = expected(compiled.region, own, machine.quantisation or Numerics())
            for name, array in results.items():
                assert np.array_equal(array, one_by_one(wanted[name], count))


def test_the_schedule_says_it_and_is_read_back() -> None:
    machine, region = small("stcp920"), rows_region(1, 3, 32)
    compiled = compile_region(machine, load_kernels(machine), region, Options(copies=2, streams=2, images=3, effort=0))
    text = write_schedule(compiled.schedule)
    assert "copies: {times: 2, streams: 2, images: 3}" in text
    assert compiled.schedule.copies == Copies(2, 2, 3)
    assert read(text) == compiled.schedule
    again = compile_region(machine, load_kernels(machine), region, None, read(text))
    assert again.program.streams == compiled.program.streams
    assert compiled.region.images == 3


def test_a_map_whose_images_do_not_stand_as_its_buffer_does_is_refused() -> None:
    machine, region = small("stcp920"), rows_region(1, 2, 32)
    compiled = compile_region(machine, load_kernels(machine), region, Options(copies=2, images=3, effort=0))
    held, name = compiled.map, compiled.map.outputs[0]
    stored = held.tensors[name]
    batch, channels, height, width = stored.shape
    for shape in (
        (batch + 1, channels, height, width),
        (1, channels, height, width),
        (-batch, channels, -height, width),
        (batch, channels, 0, width),
    ):
        wrong = replace(held, tensors={**held.tensors, name: replace(stored, shape=Shape(*shape))})
        with pytest.raises(UserError, match=f"E1104 the tensor '{name}' of region 'r' is stored in a way that stcp920 does not know"):
            check_map("r", machine, wrong, compiled.constants)


@pytest.mark.parametrize("images", [0, 3, 1 << 17])
def test_a_region_is_stacked_once(images: int) -> None:
    machine, region = small("stcp920"), stacked(rows_region(1, 2, 32), 2)
    with pytest.raises(UserError, match=f"E1007 region 'random' with 2 images in each tensor cannot have {images}"):
        stacked(region, images)
    if images == 3:
        schedule = compile_region(machine, load_kernels(machine), region, Options(images=2, effort=0)).schedule
        assert schedule.copies == Copies(images=2)
        with pytest.raises(UserError, match="E1414 region 'random' with 2 images in each tensor cannot have 3; leave 'images' out"):
            compile_region(machine, load_kernels(machine), region, None, replace(schedule, copies=Copies(images=images)))


@pytest.mark.parametrize(("target", "copies", "streams"), [("vta", 1, 1), ("dnnvm", 1, 1), ("stcp920", 2, 2), ("stcp920", 4, 1)])
@settings(max_examples=3, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(2, 5), st.integers(2, 3))
def test_windows_over_rows_have_images_beside_each_other(target: str, copies: int, streams: int, seed: int, steps: int, count: int) -> None:
    machine = small(target)
    kinds = {"conv2d", "depthwise", "add", "max_pool"}
    region = Builder(np.random.default_rng(seed), kinds, bias=99, block=channel_block(machine)).region(steps)
    if all(map(stackable, region.operations)):
        return
    if found := ran(machine, region, Options(copies=copies, streams=streams, images=count, effort=0)):
        compiled, given_to, read = found
        shapes = {compiled.map.tensors[name].shape for name in compiled.region.inputs}
        assert shapes == {region.tensors[name]._replace(batch=count) for name in region.inputs}
        for own, results in zip(given_to, read, strict=True):
            alone = [
                expected(region, {name: array[k : k + 1] for name, array in own.items()}, machine.quantisation or Numerics()) for k in range(count)
            ]
            for name, array in results.items():
                assert np.array_equal(array, np.concatenate([each[name] for each in alone]))


def test_an_operation_that_mixes_images_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    machine, shape = small("stcp920"), Shape(1, 32, 6, 6)
    weight, bias = np.ones((32, 32, 3, 3), np.int8), np.zeros(32, np.int32)
    mixing = Bound(made.conv2d("mix", shape, weight, bias, (1, 1), (1, 1, 1, 1)), {"x": "x", "y": "y"})
    region = Region("r", {"x": shape, "y": shape}, ("x",), ("y",), (mixing,), {})
    schedule = compile_region(machine, load_kernels(machine), region, Options(effort=0)).schedule
    monkeypatch.setattr(region_module, "image_by_image", lambda operation: operation.name != "mix")
    text = "'mix' makes an image of other images than its own, so a tensor cannot hold {} of them"
    with pytest.raises(UserError, match="E1007 " + text.format(3)):
        compile_region(machine, load_kernels(machine), region, Options(images=3))
    with pytest.raises(UserError, match="E1414 " + text.format(2)):
        compile_region(machine, load_kernels(machine), region, None, replace(schedule, copies=Copies(images=2)))
