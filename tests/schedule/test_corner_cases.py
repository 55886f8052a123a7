"""Corners of machines: what is taken is exact, in memories of any size, and what is left to the host has a reason that names the limit."""

import re
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.corner_cases import Case, corner_cases, place_case, run_case
from tests.operations import made
from tests.operations.made import load_machine
from tests.schedule.convolutions import convolution
from tests.schedule.test_compile_region import proven
from toolchain.abi.dram_map import Shape
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options
from toolchain.schedule.regions.region import Bound, Region, Slice

CASES = {case.name: case for case in corner_cases() if case.small}
MACHINES = {name: load_machine(name) for name in ("dpuv3", "dnnvm", "vta", "stcp920")}
TRANSPOSED = {name: "no kernel for 'conv_transpose'" for name, case in CASES.items() if case.kind == "conv_transpose"}
POOLS = {"kernel 17, max_pool": "kernel_. would be 17", "kernel 17, average_pool": "kernel_. would be 17"}
HOST: Mapping[str, Mapping[str, str]] = {
    "vta": {},
    "stcp920": {
        **POOLS,
        **TRANSPOSED,
        "kernel 17, depthwise": "LOAD's lines would be 289, outside 1..256",
        "stride 9": "stride_h would be 9, outside 1..8",
    },
    "dpuv3": {
        **POOLS,
        "kernel 17": "CONVINIT's kernel_h would be 17, outside 1..16",
        "kernel 17, depthwise": "CONVINIT's kernel_h would be 17, outside 1..16",
        "stride 9": "a stride is at most 8",
        "dilation 12": "CONVINIT's kernel_h would be 25, outside 1..16",
    },
    "dnnvm": {
        **POOLS,
        "kernel 17": "CONV's kernel_h would be 17, outside 1..16",
        "kernel 17, depthwise": "DWCONV's kernel_h would be 17, outside 1..16",
        "stride 9": "CONV's stride_h would be 9, outside 1..8",
        "a dense layer of 20x17 pixels": "CONV's kernel_h would be 20, outside 1..16",
        "a dense layer of 28x28 pixels": "CONV's kernel_h would be 28, outside 1..16",
        "4112 channels, kernel 3": "CONV's in_groups would be 343, outside 1..256",
        "512 channels, kernel 7": "'w' takes 2107 elements of 'weights', which has 2048, and kernel 'conv2d' has no dimension that reduces",
        "1024 channels, kernel 7": "LOAD's width would be 4214, outside 1..4096",
        "stride 9, kernel 1, transposed": "TCONV's stride_h would be 9, outside 1..8",
        "kernel 17, transposed": "TCONV's kernel_h would be 17, outside 1..16",
        "4112 channels, transposed": "TCONV's in_groups would be 343, outside 1..256",
        "1x1 image, enlarged": "no kernel for 'upsample'",
        "4112 channels, enlarged": "no kernel for 'upsample'",
        "rows of 2011, enlarged": "no kernel for 'upsample'",
    },
}


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", MACHINES)
def test_only_these_corners_are_left_to_the_host(name: str) -> None:
    placed = {case.name: place_case(MACHINES[name], case) for case in CASES.values()}
    left = {case: each.reason for case, each in placed.items() if each.problem is None}
    assert left.keys() == HOST[name].keys()
    assert not [(case, left[case]) for case, reason in HOST[name].items() if not re.search(reason, left[case])]


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", MACHINES)
@settings(max_examples=12, deadline=None)
@given(st.sampled_from(sorted(CASES)), st.sampled_from([1, 2, 4, 8, 16, 32]), st.booleans())
def test_any_corner_is_exact_in_any_memory(name: str, case: str, share: int, own_shifts: bool) -> None:
    placed = place_case(MACHINES[name], CASES[case], own_shifts)
    if placed.problem is not None:
        run_case(placed, share)


@st.composite
def windows(draw: st.DrawFn) -> Case:
    """Kernels up to 16, strides up to 8, any padding up to twice the kernel, prime sizes."""
    kind = draw(st.sampled_from(["conv2d", "depthwise"]))
    kernel, strides = ([draw(st.sampled_from(sizes)) for _ in range(2)] for sizes in ((1, 2, 3, 5, 16), (1, 2, 3, 7, 8)))
    pads = [draw(st.integers(0, min(2 * kernel[axis % 2], 12))) for axis in range(4)]
    size = [draw(st.sampled_from([n for n in (1, 2, 7, 13, 31) if n + pads[axis] + pads[axis + 2] >= kernel[axis]] or [31])) for axis in range(2)]
    channels = draw(st.sampled_from([1, 7, 31]))
    numbers = {"kh": kernel[0], "kw": kernel[1], "sh": strides[0], "sw": strides[1], "dh": 1, "dw": 1, "height": size[0], "width": size[1]}
    numbers |= dict(zip(("pad_top", "pad_left", "pad_bottom", "pad_right"), pads, strict=True))
    own = {"in_channels": channels, "group_channels": channels, "groups": 1, "out_channels": draw(st.sampled_from([1, 13, 37]))}
    return Case("drawn", kind, numbers | (own if kind == "conv2d" else {"channels": channels}))


@pytest.mark.parametrize("name", MACHINES)
@settings(max_examples=12, deadline=None)
@given(windows(), st.sampled_from([1, 4, 16]), st.booleans())
def test_any_window_is_taken_and_exact_in_any_memory(name: str, case: Case, share: int, own_shifts: bool) -> None:
    placed = place_case(MACHINES[name], case, own_shifts)
    large = max(case.numbers[k] + 2 * max(case.numbers[p], 0) for k, p in (("kh", "pad_top"), ("kw", "pad_left"))) > 16
    assert placed.problem is not None or large, placed.reason
    if placed.problem is not None:
        run_case(placed, share)


def concats(batch: int, width: int) -> Region:
    """Four concats in each other, of rows longer than a bank."""
    shape = (batch, 16, 2, width)
    tensors, operations, slices = {"x": Shape(*shape)}, list[Bound](), dict[str, Slice]()
    for number in range(5):
        name, operation = f"part{number}", convolution(shape, (32, 1, 3), number, pads=(0, 1, 0, 1), shift=8, bias=100)
        tensors[name] = Shape(batch, 32, 2, width)
        operations.append(Bound(operation, {"x": "x", "y": name}))
    inner = "part0"
    for number in range(1, 5):
        name = f"concat{number}"
        tensors[name] = Shape(batch, 32 * (number + 1), 2, width)
        slices |= {inner: Slice(name, 0), f"part{number}": Slice(name, 32 * number)}
        inner = name
    pool = made.max_pool("pool", (batch, 160, 2, width), made.Window((2, 3), (1, 2), (0, 1, 0, 1)))
    tensors["y"] = Shape(*pool.output)
    return Region("concats", tensors, ("x",), ("y",), (*operations, Bound(pool, {"x": inner, "y": "y"})), slices)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", ["dpuv3", "vta", "stcp920", "dnnvm:zu9"])
def test_concats_of_concats_of_long_rows_are_exact(name: str) -> None:
    machine = load_machine(name)
    region = concats(4 if name == "dpuv3" else 1, 1777)
    compiled = compile_region(machine, load_kernels(machine), region, Options(effort=0))
    assert proven(compiled, machine)
