"""Operands and results that a kernel does not state."""

import pytest

from toolchain.operations.kind import Operand
from toolchain.schedule.kernels.default_tensors import array_indices
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.spec.expr import Name
from toolchain.spec.load import load_machine
from toolchain.spec.model import Layout

KERNELS = load_kernels(load_machine("vta"))


def test_operands_and_the_result_stand_in_the_layout_that_the_machine_writes() -> None:
    found = {tensor.name: tensor for tensor in KERNELS["add"].tensors}
    assert {name for name, tensor in found.items() if tensor.layout == "activations"} == {"x", "y", "z"}
    assert [name for name, tensor in found.items() if tensor.written] == ["y"]
    assert found["y"].extents == (Name("batch"), Name("channels"), Name("height"), Name("width"))


def test_the_extents_are_in_the_order_of_the_layout() -> None:
    kernel = load_kernels(load_machine("dpuv3"))["conv2d"]
    (x,) = (tensor for tensor in kernel.tensors if tensor.name == "x")
    assert x.extents == (Name("batch"), Name("height"), Name("width"), Name("in_channels"))


def test_what_no_step_reaches_is_passed_on_chip() -> None:
    assert KERNELS["add_onto_x"].passed == ("x",)
    assert KERNELS["add_both"].passed == ("x", "z")
    assert {tensor.name for tensor in KERNELS["add_onto_x"].tensors} == {"w", "y", "z"}


@pytest.mark.parametrize(
    ("axes", "indices", "wanted"),
    [
        ("oiuv", "oihw", "oiuv"),
        ("oiuv", "ohwi", "ouvi"),
        ("cuv", "chw", "cuv"),
        ("o", "c", "o"),
        ("oiuv", "nc", ""),
    ],
)
def test_an_array_is_stored_by_indices_of_the_same_name_and_in_the_same_order(axes: str, indices: str, wanted: str) -> None:
    layout = Layout("l", tuple(indices), tuple(indices.upper()), (), ())
    found = array_indices(Operand("weight", {axis: axis.upper() for axis in axes}), layout)
    assert found == dict(zip(indices, wanted, strict=bool(wanted)))
