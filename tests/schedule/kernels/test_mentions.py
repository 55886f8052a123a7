"""Places and constants of a step follow from its instructions."""

from toolchain.schedule.kernels.kernel import Step
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.spec.load import load_machine


def step(machine: str, kernel: str, kind: str, place: str, number: int = 0) -> Step:
    return [s for s in load_kernels(load_machine(machine))[kernel].steps if (s.kind, s.place) == (kind, place)][number]


def test_places_come_in_the_order_in_which_instructions_name_them() -> None:
    assert step("dnnvm", "conv2d", "compute", "y").uses == ("x", "w", "bias")
    assert step("dpuv3", "add", "compute", "y").uses == ("x", "z")


def test_a_constant_brings_the_places_of_its_records() -> None:
    found = step("vta", "conv2d", "compute", "y")
    assert (len(found.constants), found.uses) == (1, ("x", "w"))


def test_constants_come_in_the_kernels_order() -> None:
    kernel = load_kernels(load_machine("vta"))["overlapping_max_pool"]
    known, found = [constant.name for constant in kernel.constants], step("vta", "overlapping_max_pool", "compute", "y").constants
    assert len(found) == 5
    assert list(found) == [name for name in known if name in found]


def test_a_step_without_others_uses_none() -> None:
    assert step("dnnvm", "conv2d", "load", "w").uses == ()
    assert step("dnnvm", "conv2d", "store", "y").constants == ()


def test_a_sequence_acts_on_the_place_that_it_is_given() -> None:
    """dpuv3 convolves what it has loaded, or a copy for strides."""
    plain, copied = (step("dpuv3", "depthwise", "compute", "y", number).uses for number in (0, 1))
    assert ("x" in plain, "t" in plain) == (True, False)
    assert ("x" in copied, "t" in copied) == (False, True)
