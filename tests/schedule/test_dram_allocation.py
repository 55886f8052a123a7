"""DRAM of a region: concats without copies, room between operations shared, each constant once, registers or absolute addresses."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from tests.operations.made import load_machine
from tests.schedule.convolutions import convolution
from toolchain.abi.dram_map import DramMap, Shape
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options
from toolchain.schedule.regions.region import Bound, Region, Slice
from toolchain.spec.errors import UserError

MACHINE = load_machine("vta")
KERNELS = load_kernels(MACHINE)
QUICK = Options(check=False)


def chain(count: int, channels: int = 16, seed: int | None = None) -> Region:
    """Convolutions in a row; with a seed all have the same weights."""
    tensors = {f"t{k}": Shape(1, channels, 6, 6) for k in range(count + 1)}
    convs = [replace(convolution((1, channels, 6, 6), (channels, 1, 1), k if seed is None else seed), name=f"c{k}") for k in range(count)]
    bound = tuple(Bound(conv, {"x": f"t{k}", "y": f"t{k + 1}"}) for k, conv in enumerate(convs))
    return Region("chain", tensors, ("t0",), (f"t{count}",), bound, {})


def branches(channels: tuple[int, ...]) -> Region:
    """Convolutions of one input whose results a concat puts side by side, the last two in a concat of their own."""
    shape = (1, 16, 5, 5)
    convs = [replace(convolution(shape, (c, 1, 1), k), name=f"c{k}") for k, c in enumerate(channels)]
    tensors = {"x": Shape(*shape), **{f"b{k}": Shape(1, c, 5, 5) for k, c in enumerate(channels)}}
    tensors |= {"inner": Shape(1, sum(channels[1:]), 5, 5), "all": Shape(1, sum(channels), 5, 5)}
    slices = {"b0": Slice("all", 0), "inner": Slice("all", channels[0]), "b1": Slice("inner", 0), "b2": Slice("inner", channels[1])}
    return Region("branches", tensors, ("x",), ("all",), tuple(Bound(conv, {"x": "x", "y": f"b{k}"}) for k, conv in enumerate(convs)), slices)


def test_operands_of_nested_concats_stand_in_their_result() -> None:
    stored = compile_region(MACHINE, KERNELS, branches((32, 16, 24)), QUICK).map.tensors
    assert {name: stored[name].channel for name in ("b0", "inner", "b1", "b2", "all")} == {"b0": 0, "inner": 32, "b1": 32, "b2": 48, "all": 0}
    assert len({(stored[name].segment, stored[name].offset, stored[name].extents) for name in ("b0", "inner", "b1", "b2", "all")}) == 1


def test_an_operand_that_starts_inside_an_element_is_refused() -> None:
    with pytest.raises(UserError, match=r"E1007 tensor 'y' starts at byte .* inside an element"):
        compile_region(MACHINE, KERNELS, branches((24, 16, 16)), QUICK)


def test_tensors_that_live_at_once_stand_apart_and_others_share() -> None:
    compiled = compile_region(MACHINE, KERNELS, chain(6), QUICK)
    stored = compiled.map.tensors
    assert len({stored[f"t{k}"].offset for k in range(1, 6)}) == 2
    assert compiled.map.segments["swap"].bytes == max(stored[f"t{k}"].offset for k in range(1, 6)) + stored["t1"].bytes
    assert all(stored[f"t{k}"].offset != stored[f"t{k + 1}"].offset for k in range(1, 5))


def test_segments_stand_apart_and_none_at_zero() -> None:
    segments = compile_region(MACHINE, KERNELS, chain(3), QUICK).map.segments
    assert all(a.address + a.bytes <= b.address or b.address + b.bytes <= a.address for a, b in combinations(segments.values(), 2))
    assert min(segment.address for segment in segments.values()) > 0


def test_equal_constants_are_stored_once() -> None:
    same, other = (len(compile_region(MACHINE, KERNELS, chain(5, 32, seed), QUICK).constants["constants"]) for seed in (7, None))
    assert other - same >= 4 * 32 * 32


def test_addresses_count_from_registers_where_the_machine_has_them() -> None:
    machine = load_machine("dpuv3")
    region = chain(2)
    region = replace(region, tensors={name: Shape(4, *shape[1:]) for name, shape in region.tensors.items()},
                     operations=tuple(Bound(replace(convolution((4, 16, 6, 6), (16, 1, 1), k), name=f"c{k}"), b.tensors)
                                      for k, b in enumerate(region.operations)))  # fmt: skip
    compiled = compile_region(machine, load_kernels(machine), region, QUICK)
    state = compiled.state({"t0": np.zeros((4, 16, 6, 6), np.int8)})
    assert compiled.map.registers == "base"
    for segment in compiled.map.segments.values():
        assert state.host["base"][0, segment.register] == segment.address


def test_dram_that_is_too_small_is_refused() -> None:
    small = load_machine("vta", overrides={"LOG_DRAM": "16"})
    with pytest.raises(UserError, match="E1004 the region takes"):
        compile_region(small, load_kernels(small), chain(4, 128), QUICK)


def test_a_tensor_is_written_beside_others_and_read_back() -> None:
    compiled = compile_region(MACHINE, KERNELS, branches((32, 16, 24)), QUICK)
    state, rng = compiled.state({"x": np.zeros((1, 16, 5, 5), np.int8)}), np.random.default_rng(0)
    whole = rng.integers(-128, 128, (1, 72, 5, 5), np.int8)
    compiled.map.write(MACHINE, state, {"all": whole})
    part = rng.integers(-128, 128, (1, 16, 5, 5), np.int8)
    compiled.map.write(MACHINE, state, {"b1": part})
    assert np.array_equal(compiled.map.read(MACHINE, state, "all"), np.concatenate([whole[:, :32], part, whole[:, 48:]], axis=1))
    assert np.array_equal(compiled.map.read(MACHINE, state, "b2"), whole[:, 48:])
    with pytest.raises(ValueError, match="the tensor is"):
        compiled.map.write(MACHINE, state, {"b1": whole})
    assert DramMap.from_plain(compiled.map.plain()) == compiled.map
