"""The part of a maker that a tile needs: every unit that some element reads, and no range that is longer than need be. Groups over tiles are
exact and free of races, whatever the chain and the machine's variant, and move less."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.operations import made
from tests.schedule.convolutions import convolution
from tests.schedule.made_regions import Builder
from tests.schedule.test_compile_region import proven
from tests.schedule.tiling.fused_chains import CHAINS, PICTURE, add, chain, conv, pool, scheduled
from toolchain.operations.operation import Operation
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.form.plan import Schedule
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.kernels.problem import state_problem
from toolchain.schedule.options import Options
from toolchain.schedule.program import CompiledRegion
from toolchain.schedule.regions.region import Region, Slice
from toolchain.schedule.tiling.tile_group import Reach, TileGroup, make_tile_group, touched
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine

VTA = load_machine("vta")


@st.composite
def reaches(draw: st.DrawFn) -> Reach:
    """Windows that slide over a picture with padding."""
    stride, reach, pad, count = (draw(st.integers(low, high)) for low, high in ((1, 3), (1, 5), (0, 2), (1, 40)))
    pad = min(pad, reach - 1)
    at = np.arange(count) * stride - pad
    extent = max(int(at[-1]) + reach - pad, 1)
    return Reach("oh", np.clip(at, 0, extent - 1), np.maximum(np.clip(at + reach, 0, extent), np.clip(at, 0, extent - 1) + 1))


@given(reaches(), st.integers(1, 40))
def test_the_largest_part_is_that_of_some_tile(reach: Reach, size: int) -> None:
    tiles = [(first, min(size, len(reach.first) - first)) for first in range(0, len(reach.first), size)]
    parts = [reach.part(*tile) for tile in tiles]
    assert max(count for _, count in parts) == reach.largest(size)
    for (first, count), (start, units) in zip(tiles, parts, strict=True):
        assert start == min(reach.first[first : first + count])
        assert start + units == max(reach.stop[first : first + count])


@given(reaches(), st.integers(1, 40))
def test_units_that_begin_anywhere_need_no_more_than_the_most(reach: Reach, size: int) -> None:
    parts = [reach.part(first, min(size, len(reach.first))) for first in range(max(len(reach.first) - size, 0) + 1)]
    assert max(count for _, count in parts) == reach.most(size) >= reach.largest(size)


@given(reaches())
def test_all_is_read_where_windows_meet(reach: Reach) -> None:
    units = {unit for first, stop in zip(reach.first, reach.stop, strict=True) for unit in range(first, stop)}
    extent = max(units) + 1
    assert reach.covers(extent) == (units == set(range(extent)))


def built(region: Region, schedule: Schedule | None = None, machine: Machine = VTA, **options: bool) -> CompiledRegion:
    return compile_region(machine, load_kernels(machine), region, Options(**options), schedule)


def moved(compiled: CompiledRegion) -> int:
    """Bytes to and from DRAM."""
    dram = VTA.memories.index(VTA.memory["dram"])
    return sum(int(part[:, dram].sum()) for part in (compiled.checked.footprints.traffic_read, compiled.checked.footprints.traffic_written))


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_is_one_group_that_is_exact_and_moves_less(name: str) -> None:
    region = CHAINS[name]
    schedule = scheduled(region)
    assert [(len(group.operations), group.tiles) for group in schedule.groups] == [(len(region.operations), True)]
    found = built(region, schedule)
    assert proven(found, VTA)
    assert moved(found) < moved(built(region, grouped=False))
    hidden = {bound.tensors["y"] for bound in region.operations} - set(region.outputs)
    assert not hidden & set(found.map.tensors)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("variant", ["chisel", pytest.param("block32", marks=pytest.mark.nightly)])
def test_other_variants_of_the_machine(variant: str, name: str) -> None:
    machine = load_machine("vta", variant)
    region = CHAINS[name]
    schedule = scheduled(region, machine)
    assert any(group.tiles for group in schedule.groups)
    assert proven(built(region, schedule, machine), machine)


def test_several_images_in_a_row_of_lanes() -> None:
    machine = load_machine("vta", "batch4_block8")
    region = chain((6, *PICTURE[1:]), (conv(0, (6, *PICTURE[1:])), {"x": "t"}), (add(shape=(6, *PICTURE[1:])), {"x": "t0", "z": "u"}))
    schedule = scheduled(region, machine)
    assert [group.tiles for group in schedule.groups] == [True]
    assert proven(built(region, schedule, machine), machine)


def function(shape: tuple[int, int, int, int]) -> Operation:
    return made.made("silu", "silu", {"x": shape}, {"table": np.arange(-128, 128, dtype=np.int64)[::-1] // 2})


@pytest.mark.drawn(2)
@pytest.mark.parametrize("images", [1, 2])
@pytest.mark.parametrize("cores", [1, 2])
def test_functions_and_sums_where_another_operation_left_its_tile(cores: int, images: int) -> None:
    """On a core alone, tensors that the group reads stay in L1 meanwhile; those of cores that share an image do not."""
    machine, big = load_machine("stcp920"), (1, 64, 24, 20)
    plain = chain(
        big, (convolution(big, (64, 1, 1), 1), {"x": "t"}), (function(big), {"x": "t0"}),
        (convolution(big, (64, 3, 3), 2, pads=(1, 1, 1, 1)), {"x": "t1"}),
            (made.add("add", big), {"x": "t0", "z": "t2"}), (function(big), {"x": "t3"}),
    )  # fmt: skip
    options = Options(effort=0, streams=cores, copies=images)
    found = compile_region(machine, load_kernels(machine), plain, options)
    kernels = [operation.kernel for group in found.schedule.groups if group.tiles for operation in group.operations]
    assert [kernel for kernel in kernels if "onto" in kernel] == ["silu_onto_x", "add_onto_z", "silu_onto_x"]
    assert proven(found, machine)
    assert proven(found, machine, seed=5)


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 1 << 30), steps=st.integers(3, 9))
@example(seed=574638113, steps=4)  # an addition of a tensor that its group makes and of a view of it
def test_any_region_is_exact_and_free_of_races(seed: int, steps: int) -> None:
    builder = Builder(np.random.default_rng(seed), {"conv2d", "depthwise", "add", "max_pool"})
    region = builder.region(steps)
    if region.operations:
        assert proven(built(region, scheduled(region)), VTA)


def test_a_tensor_that_a_group_makes_is_not_read_from_dram_under_another_name() -> None:
    plain = chain(PICTURE, (conv(0), {"x": "t"}), (add(), {"x": "u", "z": "t0"}))
    other = plain.operations[1].tensors
    viewed = replace(
        plain,
        tensors={**plain.tensors, "seen": plain.tensors["t0"]},
        operations=(plain.operations[0], replace(plain.operations[1], tensors={**other, "x": "seen"})),
        slices={"seen": Slice("t0", 0, view=True)},
    )
    assert refused(viewed, "conv2d", "add_onto_z") == "'op1' reads 'seen', which 'op0' makes, from DRAM"


def refused(region: Region, *kernels: str) -> str:
    known = load_kernels(VTA)
    problems = [state_problem(VTA, known[name], bound.operation) for name, bound in zip(kernels, region.operations, strict=True)]
    found = make_tile_group(region, range(len(kernels)), problems)
    assert not isinstance(found, TileGroup)
    return found


def test_what_cannot_be_a_group() -> None:
    region = CHAINS["conv -> add, x passed"]
    assert refused(region, "conv2d", "add") == "no one operation of the group takes the tiles of 'op0' as they stand on chip"
    other = replace(region, operations=(region.operations[0], replace(region.operations[1], tensors={"x": "u", "z": "t", "y": "t1"})))
    assert refused(other, "conv2d", "add_onto_x").startswith("no one operation")
    skipping = chain(PICTURE, (conv(0), {"x": "t"}), (pool(1, 2, 0), {"x": "t0"}))
    assert refused(skipping, "conv2d", "max_pool_passed") == "'op1' cannot take the tiles of 'op0': its own do not need whole blocks of them"
    whole = chain((1, 32, 3, 3), (conv(0, (1, 32, 3, 3)), {"x": "t"}), (add(shape=(1, 32, 3, 3)), {"x": "t0", "z": "u"}))
    cut = replace(whole, operations=(replace(whole.operations[0], tensors={"x": "t", "y": "t9"}), whole.operations[1]))
    assert refused(cut, "conv2d", "add_onto_x").startswith("no one operation")


def test_the_tiles_of_a_maker_overlap_where_its_reader_needs_it() -> None:
    region, known = CHAINS["conv -> overlapping pool"], load_kernels(VTA)
    kernels = (known["conv2d"], known["max_pool_passed"])
    problems = [state_problem(VTA, kernel, bound.operation) for kernel, bound in zip(kernels, region.operations, strict=True)]
    group = make_tile_group(region, range(2), problems)
    assert isinstance(group, TileGroup)
    rows = [tiles[0]["oh"] for tiles in group.tiles({"n": 1, "oc": 2, "oh": 3, "ow": 6}, ("oh",))]
    assert rows == [(0, 6), (5, 7), (11, 2)]
    assert group.sizes({"n": 1, "oc": 2, "oh": 3, "ow": 6})[0] == {"n": 1, "oc": 2, "oh": 7, "ow": 11}


def test_rows_of_a_sequence_are_one_wide() -> None:
    """A product of two sequences reads what a convolution made as a picture one pixel wide: all of its columns are the first."""
    machine = load_machine("stcp920")
    known, weights = load_kernels(machine), {"weight": np.ones((64, 32, 1, 1), np.int8), "bias": np.zeros(64, np.int32)}
    ends = {"multipliers": np.ones(64, np.int32), "shifts": np.zeros(64, np.int32)}
    maker = made.made("conv2d", "maker", {"x": (1, 32, 40, 1)}, {**weights, **ends}, kernel_shape=(1, 1), strides=(1, 1))
    reader = made.made("matmul", "reader", {"x": (1, 64, 40, 1), "z": (1, 43, 64, 1)}, {}, multiplier=1, shift=0)
    problems = [state_problem(machine, known[name], operation) for name, operation in (("conv2d", maker), ("matmul", reader))]
    found = dict(touched(*problems, "x"))
    assert {name: (int(reach.first[0]), int(reach.stop[-1]), whole) for name, (reach, whole) in found.items()} == {
        "n": (0, 1, True), "c": (0, 2, True), "oh": (0, 40, True), "ow": (0, 1, True)
    }  # fmt: skip


@pytest.mark.parametrize("rows", range(1, 9))
def test_full_tiles_hold_every_tile_of_a_chain_of_windows(rows: int) -> None:
    """Tiles that a window needs overlap, so that those before them begin anywhere."""
    machine, shape, half = load_machine("stcp920"), (1, 32, 16, 16), (1, 32, 8, 8)
    kernels = load_kernels(machine)
    windows = [convolution(shape, (32, 3, 3), 1, pads=(1, 1, 1, 1), strides=strides) for strides in ((1, 1), (2, 2))]
    windows += [convolution(half, (32, 3, 3), seed, pads=(1, 1, 1, 1)) for seed in (2, 3)]
    region = chain(shape, *((window, {"x": f"t{number - 1}" if number else "t"}) for number, window in enumerate(windows)))
    names = ["conv2d", *["conv2d_passed"] * 3]
    problems = [state_problem(machine, kernels[name], bound.operation) for name, bound in zip(names, region.operations, strict=True)]
    group = make_tile_group(region, range(4), problems)
    assert isinstance(group, TileGroup)
    sizes = {"n": 1, "c": 1, "oh": rows, "ow": 3}
    full = group.sizes(sizes)
    for tiles in group.tiles(sizes, ("oh", "ow")):
        assert all(size <= full[member][name] for member, tile in enumerate(tiles) for name, (_, size) in tile.items())
