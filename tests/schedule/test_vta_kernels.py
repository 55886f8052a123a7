"""Every kernel of VTA is exact against the integer reference and free of races, on every configuration that it serves."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.operations import made
from tests.schedule.convolutions import convolution
from tests.schedule.vta_operations import (
    additions,
    average_pools,
    dense_layers,
    depthwises,
    exact,
    expected,
    first_layers,
    global_pools,
    inputs_of,
    leaky_convolutions,
    max_pools,
    ran,
    upsamples,
)  # fmt: skip
from toolchain.abi.dram_map import Shape
from toolchain.operations.operation import Operation
from toolchain.schedule.compile_operation import TimedOperation, compile_operation
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.kernel_selection import choose_kernel
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.regions.region import Bound, Region, Slice
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine

MACHINE = load_machine("vta")
KERNELS = load_kernels(MACHINE)
KINDS = {
    "conv2d": leaky_convolutions(), "dense": dense_layers(), "depthwise": depthwises(), "average_pool": average_pools(),
    "global_average_pool": global_pools(), "max_pool": max_pools(), "add": additions(), "upsample": upsamples(),
}  # fmt: skip
LEAKY = made.Requantise(3, -128, 127, 26, 8)


def compiled(operation: Operation, machine: Machine = MACHINE, contexts: int = 2, given: tuple[str, ...] = ()) -> TimedOperation:
    kernels = KERNELS if machine is MACHINE else load_kernels(machine)
    return compile_operation(machine, choose_kernel(machine, kernels, operation, given).kernel, operation, contexts, timed=1)


def depthwise(shape: tuple[int, int, int, int], **options: Any) -> Operation:
    rng = np.random.default_rng(0)
    weight, bias = rng.integers(-128, 128, (shape[1], 3, 3), np.int8), rng.integers(-3000, 3000, shape[1]).astype(np.int32)
    window: dict[str, Any] = {"pads": (1, 1, 1, 1), **options}
    return made.depthwise("depthwise", shape, weight, bias, made.Window((3, 3), **window), made.Requantise(7))


@pytest.mark.drawn(3)
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), st.integers(1, 3))
def test_any_operation_of_a_kind_is_exact(kind: str, data: st.DataObject, contexts: int) -> None:
    operation = data.draw(KINDS[kind])
    choice = compiled(operation, contexts=contexts)
    assert choice.compiled.problem.kernel.name.removeprefix("overlapping_") == kind
    assert exact(choice, operation)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(first_layers())
def test_a_picture_that_the_host_writes_is_stored_by_squares(operation: Operation) -> None:
    choice = compiled(operation, given=("x",))
    taps = operation.arrays["weight"].shape[2] * operation.arrays["weight"].shape[3]
    assert choice.compiled.problem.kernel.name in ("squares", "dense") or taps <= 4
    assert exact(choice, operation)


def test_a_first_layer_by_squares_takes_less_than_half_as_long() -> None:
    operation = convolution((1, 3, 64, 64), (32, 7, 7), strides=(2, 2), pads=(3, 3, 3, 3))
    assert compiled(operation, given=("x",)).cycles < 0.45 * compiled(operation).cycles
    blocks = load_machine("vta", "batch4_block8")
    assert exact(compiled(operation, blocks, given=("x",)), operation)


FEW = [
    convolution((3, 19, 9, 8), (21, 3, 3), pads=(1, 1, 1, 1), strides=(2, 1), slope=26, slope_shift=8),
    convolution((6, 37, 3, 2), (40, 3, 2), bias=1 << 29, shift=20),
    depthwise((5, 37, 9, 8), strides=(1, 2)),
    made.average_pool("average", (5, 37, 7, 9), made.Window((3, 3), (2, 2), (1, 1, 1, 1)), 7, LEAKY),
    made.average_pool("global", (5, 37, 9, 7), made.Window((9, 7)), 65, made.Requantise(12)),
    made.max_pool("max", (5, 37, 7, 9), made.Window((3, 4), (2, 1), (1, 2, 1, 1))),
    made.add("add", (5, 37, 7, 9), 33, 64, made.Requantise(6, 0)),
    made.upsample("upsample", (5, 37, 5, 6), (2, 3)),
]


@pytest.mark.drawn(10)
@pytest.mark.parametrize("operation", FEW, ids=lambda o: o.name)
@pytest.mark.parametrize("config", ["chisel", "hls", "batch4_block8", "block32"])
def test_other_blocks_batches_and_fields_are_exact(config: str, operation: Operation) -> None:
    assert exact(compiled(operation, load_machine("vta", config)), operation)


@pytest.mark.parametrize("operation", FEW[5::2], ids=lambda o: o.name)
def test_the_reference_engine_agrees(operation: Operation) -> None:
    assert exact(compiled(operation), operation, "reference")


SMALL = load_machine("vta", overrides={"LOG_INP_BUFF": "12", "LOG_WGT_BUFF": "14", "LOG_ACC_BUFF": "13", "LOG_UOP_BUFF": "11"})
LARGE = [
    convolution((1, 40, 30, 31), (40, 3, 3), pads=(1, 1, 1, 1), slope=26, slope_shift=8),
    convolution((1, 100, 7, 7), (70, 7, 7)),
    convolution((3, 1, 28, 28), (100, 28, 28)),
    depthwise((1, 40, 30, 31)),
    made.average_pool("average", (1, 40, 30, 31), made.Window((3, 3), (1, 1), (1, 1, 1, 1)), 7, LEAKY),
    made.average_pool("global", (1, 80, 30, 31), made.Window((30, 31)), 9, made.Requantise(13)),
    made.max_pool("overlapping", (1, 40, 30, 31), made.Window((3, 3), (2, 2), (1, 1, 1, 1))),
    made.max_pool("max", (1, 40, 30, 31), made.Window((2, 3), (2, 2), (0, 1, 1, 0))),
    made.add("add", (1, 80, 30, 31), 33, 64, LEAKY),
    made.upsample("upsample", (1, 40, 20, 21), (2, 2)),
]


@pytest.mark.drawn(4)
@pytest.mark.parametrize("operation", LARGE, ids=lambda o: o.name)
def test_tensors_larger_than_every_buffer_are_exact(operation: Operation) -> None:
    assert exact(compiled(operation, SMALL), operation)


@pytest.mark.parametrize(
    "operation",
    [
        made.max_pool("first rows", (1, 17, 300, 300), made.Window((2, 2), (100, 2))),
        made.average_pool("planes", (1, 17, 2, 40_000), made.Window((1, 1), (1, 2)), 1, made.Requantise(1)),
        made.average_pool("global", (1, 17, 300, 300), made.Window((300, 300)), 1, made.Requantise(16)),
        made.upsample("rows", (1, 16, 2, 33_000), (1, 2)),
    ],
    ids=lambda o: o.name,
)
def test_planes_further_apart_than_a_stride_can_say_are_exact(operation: Operation) -> None:
    assert exact(compiled(operation), operation)


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        (convolution((1, 16, 40, 40), (16, 20, 20), pads=(16, 0, 0, 0)), "LOAD's y_pad_0 would be 16, outside 0..15"),
        (convolution((1, 16, 8, 8), (16, 3, 3), slope=1, slope_shift=15), "ALU's imm would be -4210688, outside -32768..32767"),
        (convolution((1, 16, 8, 8), (16, 3, 3), slope=9, slope_shift=3), "the slope is not between 0 and 1"),
        (made.add("add", (1, 16, 8, 8), 128, 1), "the multiplier of 'x' is 128, outside -64..64"),
        (made.average_pool("average", (1, 16, 8, 8), made.Window((2, 2)), 200), "the multiplier is 200, outside -128..127"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_what_no_kernel_can_do_is_refused_with_its_reason(operation: Operation, reason: str) -> None:
    with pytest.raises(UserError, match=f"E100[34] .*{reason}"):
        compiled(operation)


def test_parts_of_a_buffer_are_read_and_written_in_place() -> None:
    """Two results side by side in one buffer of two images; a third operation reads both, a fourth only the second."""
    shape = (2, 32, 6, 6)
    operations = {
        "left": (made.add("add", shape, 3, 5, made.Requantise(3)), {"x": "a", "z": "b", "y": "left"}),
        "right": (made.max_pool("max", shape, made.Window((3, 3), pads=(1, 1, 1, 1))), {"x": "a", "y": "right"}),
        "both": (convolution((2, 64, 6, 6), (20, 3, 3), pads=(1, 1, 1, 1)), {"x": "whole", "y": "both"}),
        "twice": (made.upsample("upsample", shape, (2, 2)), {"x": "right", "y": "twice"}),
    }
    names = {"a": shape, "b": shape, "left": shape, "right": shape, "whole": (2, 64, 6, 6), "both": (2, 20, 6, 6), "twice": (2, 32, 12, 12)}
    region = Region(
        "region", {name: Shape(*found) for name, found in names.items()}, ("a", "b"), ("left", "right", "both", "twice"),
        tuple(Bound(operation, tensors) for operation, tensors in operations.values()), {"left": Slice("whole", 0), "right": Slice("whole", 32)},
    )  # fmt: skip
    found = compile_region(MACHINE, KERNELS, region)
    values: dict[str, Any] = dict(zip("ab", inputs_of(operations["left"][0]).values(), strict=True))
    state = found.state(values)
    ran(found.program, state)
    for name, (operation, tensors) in operations.items():
        if name == "both":
            values["whole"] = np.concatenate([values["left"], values["right"]], 1)
        values[name] = expected(operation, _operands(tensors, values))
        assert np.array_equal(found.result(state, name), values[name]), name


def _operands(tensors: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, Any]:
    return {role: values[name] for role, name in tensors.items() if role != "y"}
