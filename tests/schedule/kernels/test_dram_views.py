"""Views of DRAM are found in the instructions' semantics."""

import pytest

from toolchain.schedule.kernels.dram_views import dram_views
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.spec.load import load_machine


@pytest.mark.parametrize(
    ("machine", "kernel", "views"),
    [
        ("vta", "conv2d", {"x": "dram.inp", "w": "dram.wgt", "bias": "dram.wgt", "addend": "dram.acc", "one": "dram.inp", "y": "dram.out"}),
        ("dpuv3", "conv2d", {"x": "ddr.word", "w": "ddr.row", "bias": "ddr.row", "y": "ddr.word"}),
        ("dnnvm", "conv2d", {"x": "ddr.word", "w": "ddr.tile", "bias": "ddr.bias", "y": "ddr.word"}),
        ("stcp920", "add", {"x": "ddr", "z": "ddr", "y": "ddr"}),
    ],
)
def test_a_tensor_has_the_view_of_what_loads_or_stores_it(machine: str, kernel: str, views: dict[str, str]) -> None:
    assert {tensor.name: tensor.view for tensor in load_kernels(load_machine(machine))[kernel].tensors} == views


def test_what_works_on_chip_reaches_no_view() -> None:
    machine = load_machine("dpuv3")
    for step in load_kernels(machine)["conv2d"].steps:
        assert not isinstance(step.code, str)
        assert bool(dram_views(machine, step.code)) == (step.kind == "store" or (step.kind == "load" and step.place not in ("t", "p")))


def test_a_tensor_may_stand_on_chip_where_its_instructions_say_so() -> None:
    kernels = load_kernels(load_machine("stcp920"))
    assert {tensor.name: tensor.shared for tensor in kernels["add"].tensors} == {"x": "llb", "z": "llb", "y": "llb"}
    assert {tensor.name: tensor.shared for tensor in kernels["conv2d"].tensors} == {"x": "llb", "w": "", "p": "", "y": "llb"}
    assert not any(tensor.shared for tensor in load_kernels(load_machine("vta"))["add"].tensors)
