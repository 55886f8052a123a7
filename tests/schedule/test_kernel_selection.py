"""The first way to compute a call that the machine takes; reasons are those that a user reads."""

from dataclasses import replace

import numpy as np
import pytest

from tests.operations import made
from tests.operations.made import load_machine
from tests.schedule.convolutions import convolution
from toolchain.abi.dram_map import Shape
from toolchain.graph.integers.calls import Call
from toolchain.operations.library import builtin_kinds
from toolchain.operations.operation import Operation
from toolchain.schedule.kernel_selection import Selection, choose_kernel, images_per_run
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.regions.lowering import Lowered
from toolchain.spec.errors import UserError
from toolchain.spec.evaluate import fold
from toolchain.spec.expr import Expr, parse_expr
from toolchain.spec.model import Constraint, Quantity

ENDS = {"bias_shift": 0, "shift": 5, "low": -128, "high": 127}
MACHINE = load_machine("vta")
KERNELS = load_kernels(MACHINE)


def condition(text: str) -> Expr:
    return fold(parse_expr(text, lambda _line, _column: None))  # type: ignore[arg-type,return-value]


def depthwise(kernel: int, dilation: int = 1, group: int = 32) -> Lowered:
    attributes = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (dilation, dilation), "group": group, **ENDS}
    rng = np.random.default_rng(0)
    weight, bias = rng.integers(-9, 9, (32, 32 // group, kernel, kernel), np.int8), rng.integers(-99, 99, 32, np.int32)
    return Lowered(Call("c", builtin_kinds()["conv2d"], "", ("x", "w", "b"), "y", attributes), (weight, bias), {"x": Shape(1, 32, 9, 9)})


def test_one_filter_a_channel_is_an_operation_of_its_own_or_a_convolution_with_zeros() -> None:
    assert Selection(MACHINE, KERNELS).choose(depthwise(3)).operation.kind.name == "depthwise"
    without = {name: kernel for name, kernel in KERNELS.items() if kernel.computes != "depthwise"}
    dense = Selection(MACHINE, without).choose(depthwise(3)).operation
    assert dense.kind.name == "conv2d"
    weight = dense.arrays["weight"]
    assert weight.shape == (32, 32, 3, 3)
    np.testing.assert_array_equal(weight[np.arange(32), np.arange(32)], depthwise(3).constants[0][:, 0])
    assert np.count_nonzero(weight) == np.count_nonzero(depthwise(3).constants[0])


def test_a_dilated_kernel_is_filled_with_zeros_where_there_is_no_dilation() -> None:
    machine = replace(MACHINE, operators={"conv2d": (Constraint(condition("dh == 1"), "there is no dilation"),)})
    found = Selection(machine, KERNELS).choose(depthwise(3, 2, 1)).operation
    assert found.arrays["weight"].shape == (32, 32, 5, 5)
    np.testing.assert_array_equal(found.arrays["weight"][:, :, ::2, ::2], depthwise(3, 2, 1).constants[0])
    assert np.count_nonzero(found.arrays["weight"]) == np.count_nonzero(depthwise(3, 2, 1).constants[0])


def test_the_reason_is_that_of_the_first_way() -> None:
    operators = {kind: (Constraint(condition("kh <= 2"), f"a {kind} has at most 2 rows"),) for kind in ("conv2d", "depthwise")}
    with pytest.raises(UserError, match="E1003 a depthwise has at most 2 rows"):
        Selection(replace(MACHINE, operators=operators), KERNELS).choose(depthwise(3))


FIRST = convolution((1, 3, 40, 40), (32, 7, 7), strides=(2, 2), pads=(3, 3, 3, 3))
LARGER = made.conv_transpose("up", (4, 32, 16, 16), np.ones((32, 32, 4, 4), np.int8), (2, 2), (1, 1, 1, 1))


@pytest.mark.parametrize(
    ("target", "operation", "quick", "slow"), [("vta", FIRST, "squares", "conv2d"), ("dpuv3", LARGER, "sub_convolutions", "stuffed")]
)
def test_the_quickest_kernel_is_chosen_wherever_it_stands(target: str, operation: Operation, quick: str, slow: str) -> None:
    machine = load_machine(target)
    known = load_kernels(machine)
    for order in ((quick, slow), (slow, quick)):
        assert Selection(machine, {name: known[name] for name in order}).kernel_of(operation, ["x"]) == quick


@pytest.mark.parametrize(
    ("stored", "given", "chosen"), [(8.0, ["x"], "squares"), (None, ["x"], "strips"), (1e-3, ["x"], "conv2d"), (1e-3, [], "conv2d")]
)
def test_a_layout_that_the_host_writes_is_chosen_where_it_gains_with_the_hosts_part(stored: float | None, given: list[str], chosen: str) -> None:
    """stored: GB/s at which the host writes both special layouts; None where that, as copying, costs nothing."""
    machine = load_machine("dpuv3")
    assert machine.host is not None
    rate = Quantity(stored, "") if stored else None
    layouts = tuple(replace(each, gb_per_s=rate) if each.name in ("strips", "squares") else each for each in machine.layouts)
    host = machine.host if stored else replace(machine.host, transfer_gb_per_s=Quantity(1e9, ""))
    machine = replace(machine, layouts=layouts, host=host)
    first = convolution((4, 3, 224, 224), (64, 7, 7), strides=(2, 2), pads=(3, 3, 3, 3), low=0)
    assert Selection(machine, load_kernels(machine)).kernel_of(first, given) == chosen


def test_no_kernel_and_no_tile() -> None:
    with pytest.raises(UserError, match=r"E1008 machine 'vta' has no kernel for"):
        Selection(MACHINE, {}).choose(depthwise(3, 1, 1))
    tiny = load_machine("vta", overrides={"LOG_WGT_BUFF": "11"})
    with pytest.raises(UserError, match=r"E1003 .*wgt_factor_out would be 9, outside 0[.][.]7"):
        Selection(tiny, load_kernels(tiny)).choose(depthwise(3, 1, 1))


@pytest.mark.parametrize(("kind", "text", "words"), [("conv3d", "kh", "unknown kind of operation 'conv3d'"), ("conv2d", "hk", "unknown name 'hk'")])
def test_a_section_that_names_what_is_not_there_is_refused(kind: str, text: str, words: str) -> None:
    with pytest.raises(UserError, match=f"E0107 {words}"):
        Selection(replace(MACHINE, operators={kind: (Constraint(condition(text), ""),)}), KERNELS)


def test_a_choice_that_was_made_is_confirmed_without_choosing_again() -> None:
    selection = Selection(MACHINE, KERNELS)
    for lowered in (depthwise(3), depthwise(3, 1, 1), depthwise(3, 1, 4)):
        chosen = selection.choose(lowered)
        found = Selection(MACHINE, KERNELS).confirm(lowered, chosen.way, chosen.kernel)
        assert (found.way, found.kernel, found.operation.numbers) == (chosen.way, chosen.kernel, chosen.operation.numbers)
        assert all(np.array_equal(array, chosen.operation.arrays[name]) for name, array in found.operation.arrays.items())


def test_the_kernel_of_a_choice_is_the_one_that_takes_the_way() -> None:
    chosen = Selection(MACHINE, {name: kernel for name, kernel in KERNELS.items() if kernel.computes != "depthwise"}).choose(depthwise(3))
    assert chosen.way > 0
    assert KERNELS[chosen.kernel].computes == "conv2d"


@pytest.mark.parametrize(
    ("way", "kernel", "words"),
    [
        (0, "depthwize", "E1010 the graph gives 'c' to kernel 'depthwize', which machine 'vta' does not have; did you mean 'depthwise'"),
        (0, "conv2d", "E1010 the graph gives 'c', computed as depthwise, to kernel 'conv2d', which computes conv2d"),
        (9, "conv2d", "E1010 the graph computes 'c' in way 9, which it does not have"),
    ],
)
def test_a_choice_that_cannot_be_is_refused(way: int, kernel: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        Selection(MACHINE, KERNELS).confirm(depthwise(3), way, kernel)


def test_a_confirmed_kernel_must_be_able_to_do_it_and_the_machine_must_take_it() -> None:
    wide = replace(depthwise(3, 1, 1), pads=(15, 15, 15, 15))
    with pytest.raises(UserError, match="E1003 kernel 'conv2d' cannot do this"):
        Selection(MACHINE, KERNELS).confirm(wide, 0, "conv2d")
    operators = {"conv2d": (Constraint(condition("kh <= 2"), "a conv2d has at most 2 rows"),)}
    with pytest.raises(UserError, match="E1003 a conv2d has at most 2 rows"):
        Selection(replace(MACHINE, operators=operators), KERNELS).confirm(depthwise(3, 1, 1), 0, "conv2d")


def test_lockstep_levels_run_several_images() -> None:
    assert [images_per_run(load_machine(name)) for name in ("vta", "dpuv3")] == [1, 4]


def leaky(slope: int, shift: int, low: int = -128) -> Lowered:
    given = depthwise(3, 1, 1)
    attributes = {**given.call.attributes, "slope": slope, "slope_shift": shift, "low": low}
    return replace(given, call=replace(given.call, attributes=attributes))


def test_slopes_that_change_nothing_are_none_and_steep_ones_are_refused() -> None:
    selection = Selection(MACHINE, KERNELS)
    found = [selection.choose(leaky(*slope)).operation.numbers for slope in ((0, 0, 0), (8, 3), (13, 7))]
    assert [(n["slope"], n["slope_shift"]) for n in found] == [(0, 0), (0, 0), (13, 7)]
    for slope, text in (((2, 0), "2"), ((-1, 2), "-0.25")):
        with pytest.raises(UserError, match=f"E1003 'c' has a slope of {text} below zero"):
            selection.choose(leaky(*slope))


MACHINE = load_machine("vta")
KERNELS = load_kernels(MACHINE)
CONVOLUTION = convolution((1, 16, 8, 8), (16, 3, 3))


def test_the_first_that_can_is_taken() -> None:
    first, second = KERNELS["conv2d"], replace(KERNELS["conv2d"], name="other")
    assert choose_kernel(MACHINE, {"a": first, "b": second}, CONVOLUTION).kernel.name == first.name
    strict = replace(first, name="strict", requires=tuple(replace(r, that=r.that, message=r.message) for r in first.requires))
    assert choose_kernel(MACHINE, {"a": strict, "b": second}, CONVOLUTION).kernel.name == "strict"


def test_no_kernel_for_a_kind_and_a_reason_for_a_number() -> None:
    with pytest.raises(UserError, match="E1008 machine 'vta' has no kernel for 'upsample'"):
        choose_kernel(MACHINE, {"conv2d": KERNELS["conv2d"]}, made.upsample("up", (1, 16, 4, 4), (2, 2)))
    with pytest.raises(UserError, match=r"E1003 .*a window along h lies in the padding as a whole"):
        choose_kernel(MACHINE, KERNELS, convolution((1, 16, 8, 8), (16, 3, 3), pads=(3, 0, 0, 0)))
