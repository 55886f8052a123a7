"""A region of two convolutions for the tests of the verification, and the same with deliberate faults."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.schedule.convolutions import convolution, direct, image
from tests.schedule.many_cores import chip
from toolchain.abi.dram_map import Shape
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.kernels.kernel_file import load_kernel, load_kernels
from toolchain.schedule.options import Options
from toolchain.schedule.regions.region import Bound, Region
from toolchain.spec.load import load_machine
from toolchain.spec.model.quantisation import Numerics
from toolchain.verify.built import ProgramUnderTest, program_of_region


@cache
def small() -> tuple[ProgramUnderTest, dict[str, NDArray[Any]]]:
    """From `image` by operation `early` to `middle`, by `late` to `result`; and what the tensors should hold."""
    machine = load_machine("vta")
    early = replace(convolution((1, 20, 6, 5), (17, 3, 3), pads=(1, 1, 1, 1)), name="early")
    late = replace(convolution((1, 17, 6, 5), (24, 1, 1), seed=2, shift=7), name="late")
    shapes = {"image": Shape(*early.input("x")), "middle": Shape(*early.output), "result": Shape(*late.output)}
    steps = Bound(early, {"x": "image", "y": "middle"}, ("node_a", "node_b")), Bound(late, {"x": "middle", "y": "result"}, ("node_c",))
    region = Region("region", shapes, ("image",), ("result",), steps, {})
    compiled = compile_region(machine, {"conv2d": load_kernel(machine, "conv2d")}, region)
    x = image(early)
    middle = direct(early, x).astype(np.int8)
    return program_of_region(compiled), {"image": x, "middle": middle, "result": direct(late, middle).astype(np.int8)}


@cache
def small_on_streams(streams: int) -> tuple[ProgramUnderTest, dict[str, NDArray[Any]]]:
    """The same on a machine with several streams, which share both operations."""
    machine, (tested, wanted) = chip(1, 4), small()
    compiled = compile_region(machine, load_kernels(machine), tested.region, Options(streams=streams, timed_streams=False))
    early, late = (bound.operation for bound in tested.region.operations)
    numerics = machine.quantisation or Numerics()
    middle = early.run({"x": wanted["image"]}, numerics)
    return program_of_region(compiled), {"image": wanted["image"], "middle": middle, "result": late.run({"x": middle}, numerics)}


def with_field(tested: ProgramUnderTest, index: int, name: str, value: int) -> ProgramUnderTest:
    """The same program, one field of one instruction changed."""
    program = tested.program
    kind = int(program.kind[index])
    column = program.columns[kind][name].copy()
    column[int(program.row[index])] = value
    columns = tuple({**own, name: column} if k == kind else own for k, own in enumerate(program.columns))
    return replace(tested, program=replace(program, columns=columns))


def with_byte(tested: ProgramUnderTest, segment: str, offset: int) -> ProgramUnderTest:
    """The same program with one bit of its constants flipped."""
    data = bytearray(tested.constants[segment])
    data[offset] ^= 0x40
    return replace(tested, constants={**tested.constants, segment: bytes(data)})


def labelled(tested: ProgramUnderTest, start: str) -> int:
    """The first instruction whose label starts so."""
    return next(k for k, label in enumerate(tested.listing) if label.startswith(start))
