"""Every operation that dpuv3 has a kernel for gives what the integer reference gives, whatever its shape."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.operations import made
from tests.schedule.convolutions import convolution
from tests.targets.dpuv3_operations import assert_exact, compiled, expected, inputs, kernel, machine, result
from toolchain.operations.operation import Operation
from toolchain.schedule.compile_operation import compile_operation
from toolchain.schedule.kernel_selection import choose_kernel
from toolchain.schedule.kernels.kernel_file import load_kernel, load_kernels
from toolchain.spec.errors import UserError

LIMITS = [{"low": -128, "high": 127}, {"low": 0, "high": 127}, {"low": 0, "high": 96}, {"low": 0, "high": 6}, {"slope": 26, "slope_shift": 8}]
CHANNELS = [1, 3, 16, 17, 40]


def size(draw: st.DrawFn, window: made.Window) -> tuple[int, int]:
    """Rows and columns of an image that a window fits in: around and beyond eight."""
    reach = [(k - 1) * d + 1 for k, d in zip(window.kernel, window.dilations, strict=True)]
    height, width = (draw(st.integers(max(reach[k] - window.pads[k] - window.pads[k + 2], 1), (36, 20)[k])) for k in (0, 1))
    return height, width


@st.composite
def windows(draw: st.DrawFn, dilated: bool = True) -> made.Window:
    kernel = draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    dilations = draw(st.tuples(st.integers(1, 3), st.integers(1, 3))) if dilated else (1, 1)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = draw(st.tuples(*(st.integers(0, reach[k % 2] - 1) for k in range(4))))
    return made.Window(kernel, draw(st.tuples(st.integers(1, 3), st.integers(1, 3))), pads, dilations)


@st.composite
def convolutions(draw: st.DrawFn) -> Operation:
    window, limits = draw(windows()), draw(st.sampled_from(LIMITS))
    shape = draw(st.sampled_from([1, 4, 5])), draw(st.sampled_from(CHANNELS)), *size(draw, window)
    weights = draw(st.sampled_from([1, 16, 20, 70])), *window.kernel
    bias, shift = draw(st.sampled_from([0, 63, 300_000, 1 << 29])), draw(st.sampled_from([0, 1, 9, 16, 24]))
    options = {"strides": window.strides, "pads": window.pads, "dilations": window.dilations, "shift": shift}
    return convolution(shape, weights, draw(st.integers(0, 99)), bias, **options, **limits)


@st.composite
def requantisations(draw: st.DrawFn) -> made.Requantise:
    return made.Requantise(draw(st.sampled_from([0, 1, 5, 9])), **draw(st.sampled_from(LIMITS)))


@st.composite
def depthwise(draw: st.DrawFn) -> Operation:
    window, channels = draw(windows()), draw(st.sampled_from([*CHANNELS, 100]))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    weight, bias = rng.integers(-128, 128, (channels, *window.kernel), np.int8), rng.integers(-5000, 5000, channels).astype(np.int32)
    return made.depthwise("dw", (4, channels, *size(draw, window)), weight, bias, window, draw(requantisations()))


@st.composite
def pools(draw: st.DrawFn, average: bool) -> Operation:
    window = draw(windows(dilated=False))
    shape = draw(st.sampled_from([4, 8])), draw(st.sampled_from(CHANNELS)), *size(draw, window)
    if average:
        return made.average_pool("pool", shape, window, draw(st.sampled_from([-128, -3, 1, 21, 127])), draw(requantisations()))
    return made.max_pool("pool", shape, window)


@st.composite
def unit_averages(draw: st.DrawFn) -> Operation:
    """Averages that the pool unit takes."""
    window, shift = draw(windows(dilated=False)), draw(st.integers(0, 15))
    shape = 4, draw(st.sampled_from(CHANNELS)), *size(draw, window)
    operation = made.average_pool("pool", shape, window, draw(st.sampled_from([1, 7, 10, 21])), made.Requantise(shift))
    assume(operation.output[2:] != (1, 1))
    return operation


@st.composite
def additions(draw: st.DrawFn) -> Operation:
    x, z = draw(st.sampled_from([(0, 0), (0, 3), (6, 0), (2, 2), (1, 4)]))
    shape = 4, draw(st.sampled_from(CHANNELS)), draw(st.integers(1, 19)), draw(st.integers(1, 9))
    return made.add("add", shape, 1 << x, 1 << z, draw(requantisations()))


@settings(max_examples=15, deadline=None)
@given(convolutions(), st.integers(1, 3))
def test_any_convolution_is_exact(operation: Operation, contexts: int) -> None:
    assert_exact(operation, contexts)


@st.composite
def first_layers(
    draw: st.DrawFn, stride: int, kernels: Sequence[tuple[int, int]] = ((3, 3), (7, 7), (5, 4), (2, 7)), channels: Sequence[int] = (1, 3, 4)
) -> Operation:
    """On few channels."""
    kernel = draw(st.sampled_from(kernels))
    pads = draw(st.tuples(*(st.integers(0, kernel[k % 2] - 1) for k in range(4))))
    shape = draw(st.sampled_from([1, 4, 5])), draw(st.sampled_from(channels)), draw(st.integers(8, 40)), draw(st.integers(8, 40))
    return convolution(shape, (draw(st.sampled_from([16, 20])), *kernel), draw(st.integers(0, 99)), strides=(stride, stride), pads=pads, shift=11)


@settings(max_examples=7, deadline=None)
@given(first_layers(2))
def test_any_first_layer_with_two_by_two_pixels_in_the_channels_is_exact(operation: Operation) -> None:
    choice, given_values = compile_operation(machine(), kernel("squares"), operation, timed=1), inputs(operation)
    np.testing.assert_array_equal(result(choice, given_values), expected(operation, given_values))


@settings(max_examples=7, deadline=None)
@given(first_layers(2, [(7, 7), (5, 5), (6, 7), (8, 5)], [1, 3]))
def test_any_first_layer_with_strips_of_eight_rows_in_the_channels_is_exact(operation: Operation) -> None:
    if operation.numbers["kh"] + operation.numbers["pad_top"] % 2 > 8:
        with pytest.raises(UserError, match=r"E1003 .*more than 8 rows"):
            compile_operation(machine(), kernel("strips"), operation)
        return
    choice, given_values = compile_operation(machine(), kernel("strips"), operation, timed=1), inputs(operation)
    np.testing.assert_array_equal(result(choice, given_values), expected(operation, given_values))


@settings(max_examples=8, deadline=None)
@given(first_layers(1))
def test_any_first_layer_with_four_columns_in_the_channels_is_exact(operation: Operation) -> None:
    choice, given_values = compile_operation(machine(), kernel("columns"), operation, timed=1), inputs(operation)
    np.testing.assert_array_equal(result(choice, given_values), expected(operation, given_values))


@settings(max_examples=7, deadline=None)
@given(depthwise(), st.integers(1, 2))
def test_any_depthwise_convolution_is_exact(operation: Operation, contexts: int) -> None:
    assert_exact(operation, contexts)


@settings(max_examples=7, deadline=None)
@given(pools(average=True))
def test_any_average_is_exact(operation: Operation) -> None:
    assert_exact(operation)


@settings(max_examples=7, deadline=None)
@given(unit_averages())
def test_any_average_in_the_pool_unit_is_exact(operation: Operation) -> None:
    choice, given_values = compile_operation(machine(), kernel("mean_pool"), operation, timed=1), inputs(operation)
    np.testing.assert_array_equal(result(choice, given_values), expected(operation, given_values))


@pytest.mark.parametrize(
    ("size", "multiply", "requantise", "reason"),
    [
        (3, 21, made.Requantise(16), "no such multiplier or shift"),
        (3, 20, made.Requantise(6), "no such multiplier or shift"),
        (3, 21, made.Requantise(6, low=0), "an activation follows"),
        (8, 21, made.Requantise(10), "an average of the whole picture"),
    ],
)
def test_averages_that_the_pool_unit_does_not_take(size: int, multiply: int, requantise: made.Requantise, reason: str) -> None:
    operation = made.average_pool("pool", (4, 16, 8, 8), made.Window((size, size)), multiply, requantise)
    with pytest.raises(UserError, match=f"E1003 .*{reason}"):
        compile_operation(machine(), kernel("mean_pool"), operation)


@settings(max_examples=7, deadline=None)
@given(pools(average=False), st.integers(1, 2))
def test_any_maximum_is_exact(operation: Operation, contexts: int) -> None:
    assert_exact(operation, contexts)


@settings(max_examples=7, deadline=None)
@given(additions())
def test_any_sum_is_exact(operation: Operation) -> None:
    assert_exact(operation)


@settings(max_examples=6, deadline=None)
@given(st.sampled_from(CHANNELS), st.integers(1, 11), st.integers(1, 9), st.integers(1, 3), st.integers(1, 3))
def test_any_enlargement_is_exact(channels: int, height: int, width: int, factor_h: int, factor_w: int) -> None:
    assert_exact(made.upsample("up", (4, channels, height, width), (factor_h, factor_w)))


@pytest.mark.parametrize(
    "operation",
    [
        convolution((4, 512, 4, 5), (128, 3, 3), pads=(1, 1, 1, 1), shift=14),
        convolution((4, 16, 40, 300), (32, 3, 3), pads=(1, 1, 1, 1), strides=(2, 2)),
        convolution((4, 1, 2, 2500), (1, 1, 1)),
        convolution((4, 2048, 1, 1), (1000, 1, 1), shift=14),
        convolution((4, 3, 16, 16), (16, 16, 16), pads=(15, 15, 15, 15), shift=14),
        made.max_pool("pool", (4, 2064, 2, 3), made.Window((1, 1))),
        made.average_pool("pool", (4, 512, 14, 14), made.Window((14, 14)), 10, made.Requantise(11)),
        made.upsample("up", (4, 300, 3, 30), (2, 2)),
    ],
    ids=["weights", "rows", "width", "dense", "kernel", "channels", "average", "copies"],
)
def test_what_no_field_or_buffer_holds_is_cut(operation: Operation) -> None:
    assert len(assert_exact(operation).compiled.program) > 10


def test_the_reference_engine_and_random_orders_agree() -> None:
    operation = convolution((4, 20, 18, 9), (17, 3, 3), pads=(1, 1, 1, 1), strides=(2, 2))
    choice, given = compiled(operation), inputs(operation)
    found = [result(choice, given, "reference"), *(result(choice, given, seed=seed) for seed in range(3))]
    assert all(np.array_equal(part, expected(operation, given)) for part in found)


def test_the_four_images_of_a_run_are_their_own() -> None:
    operation = convolution((4, 16, 9, 9), (16, 3, 3), pads=(1, 1, 1, 1))
    y = result(compiled(operation), inputs(operation))
    assert not any(np.array_equal(y[0], y[k]) for k in (1, 2, 3))


def test_the_least_value_of_the_machine_counts() -> None:
    operation = convolution((4, 16, 9, 9), (16, 3, 3), shift=4, low=-127)
    choice, given = assert_exact(operation, lowest=-127), inputs(operation)
    assert result(choice, given).min() == -127


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        (convolution((4, 16, 20, 20), (16, 17, 1)), "CONVINIT's kernel_h would be 17, outside 1..16"),
        (convolution((4, 16, 20, 20), (16, 9, 1), dilations=(2, 1)), "CONVINIT's kernel_h would be 17, outside 1..16"),
        (convolution((4, 16, 8, 8), (16, 3, 3), pads=(3, 0, 0, 0)), "a window along h lies in the padding as a whole"),
        (convolution((4, 16, 20, 20), (16, 3, 3), strides=(9, 1)), "CONVINIT's stride_h would be 9, outside 1..8"),
        (convolution((4, 16, 8, 8), (16, 3, 3), bias=3 << 29), "the least stored bias is -1563862757, outside"),
        (convolution((4, 16, 8, 8), (16, 3, 3), slope=13, slope_shift=8), "another slope than 26/256"),
        (convolution((4, 16, 8, 8), (16, 3, 3), low=0, high=5), "not limited as none, ReLU or ReLU6"),
        (convolution((4, 8208, 3, 3), (16, 1, 3)), "CONVINIT's channel_group_in would be 513, outside 1..512"),
        (made.average_pool("pool", (4, 16, 8, 8), made.Window((2, 2)), 128), "the multiplier is 128, outside -128..127"),
        (made.max_pool("pool", (4, 16, 8, 8), made.Window((2, 2), dilations=(2, 1))), "the window is dilated"),
        (made.add("add", (4, 16, 8, 8), 3, 1), "no power of two"),
        (made.add("add", (4, 16, 8, 8), 1 << 16, 1), "the multiplier of 'x' is 65536, outside -32768..32768"),
    ],
)
def test_what_the_machine_cannot_do_is_refused_with_its_reason(operation: Operation, reason: str) -> None:
    with pytest.raises(UserError, match=rf"E100[34] .*{reason}"):
        compiled(operation)


def test_what_is_not_known_of_the_machine_can_be_refused() -> None:
    strict = machine("strict")
    for limits, legal in (({"low": 0}, True), ({"low": 0, "high": 6}, False), ({"slope": 26, "slope_shift": 8}, False)):
        operation = convolution((4, 16, 8, 8), (16, 3, 3), **limits)
        if legal:
            compile_operation(strict, load_kernel(strict, "conv2d"), operation, timed=1)
            continue
        with pytest.raises(UserError, match=r"E1003 .*are not known"):
            compile_operation(strict, load_kernel(strict, "conv2d"), operation)


def test_the_first_layer_of_a_residual_network_takes_a_third() -> None:
    operation = convolution((4, 3, 112, 112), (64, 7, 7), strides=(2, 2), pads=(3, 3, 3, 3), shift=11, low=0)
    plain, squares, strips = (compile_operation(machine(), kernel(name), operation).cycles for name in ("conv2d", "squares", "strips"))
    assert squares < 0.4 * plain
    assert strips < 0.9 * squares


def test_strips_are_refused_where_the_host_shall_store_a_picture_once() -> None:
    once = made.load_machine("dpuv3", overrides={"STRIPS": "refuse"})
    operation = convolution((4, 3, 24, 24), (16, 7, 7), strides=(2, 2), pads=(3, 3, 3, 3), shift=11)
    with pytest.raises(UserError, match=r"E1003 .*this configuration refuses strips"):
        compile_operation(once, load_kernel(once, "strips"), operation)
    free = replace(machine(), host=None)
    assert choose_kernel(free, load_kernels(free), operation, ["x"]).kernel.name == "strips"
    assert choose_kernel(once, load_kernels(once), operation, ["x"]).kernel.name == "squares"


def test_a_first_layer_with_stride_1_takes_two_thirds() -> None:
    operation = convolution((4, 3, 64, 64), (16, 3, 3), pads=(1, 1, 1, 1), shift=11)
    plain, columns = (compile_operation(machine(), kernel(name), operation).cycles for name in ("conv2d", "columns"))
    assert columns < 0.67 * plain


def test_a_kernel_larger_than_the_parameter_memory_is_refused() -> None:
    with pytest.raises(UserError, match=r"E1003 .*CONVINIT's wgt_jump_read_endl would be 9216, outside 1..8192"):
        compiled(convolution((4, 1024, 12, 12), (16, 12, 12), shift=14))
