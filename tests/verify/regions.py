"""Regions of one convolution for the tests of the verification, and the same with deliberate faults."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.schedule.convolutions import convolution, direct, image
from toolchain.schedule.compile import compile_operation
from toolchain.schedule.compiled_region import CompiledRegion
from toolchain.schedule.dram_map import DramMap, Segment, StoredTensor
from toolchain.schedule.kernel_file import load_kernel
from toolchain.schedule.operations.conv2d import Conv2d
from toolchain.schedule.region import Bound, Region, Shape
from toolchain.spec.load import load_machine


def region_of_one(operation: Conv2d) -> CompiledRegion:
    """The operation from tensor `image` to tensor `result`, compiled."""
    machine = load_machine("vta")
    choice = compile_operation(machine, load_kernel(machine, "conv2d"), operation, timed=1)
    built = choice.compiled
    names = {"x": "image", "y": "result"}
    shapes = {"image": Shape(*operation.input), "result": Shape(*operation.output)}
    region = Region("region", shapes, ("image",), ("result",), (Bound(operation, names, ("node_a", "node_b")),), {})
    end = max(r.address + r.bytes for r in built.regions.values())
    memory = np.frombuffer(built.state().memories["dram"][0, :end].tobytes(), np.uint8)
    kernel_tensors = {t.name: t for t in built.problem.kernel.tensors}
    tensors = {
        names[k]: StoredTensor(
            shapes[names[k]], "all", built.regions[k].address, built.regions[k].bytes, kernel_tensors[k].view, kernel_tensors[k].layout,
            built.tensors.packings[k].extents,
        )
        for k in names
    }  # fmt: skip
    stands = DramMap("dram", "", {"all": Segment(0, end)}, tensors, ("image",), ("result",))
    owner = np.array([0 if label.startswith(operation.name) else -1 for label in built.listing], np.int64)
    return CompiledRegion(
        region, built.program, built.text, built.listing, owner, stands, {"all": memory.tobytes()}, choice.checked, choice.timeline, {}
    )


@cache
def small() -> tuple[CompiledRegion, dict[str, NDArray[Any]]]:
    """A compiled region and what its tensors should hold."""
    operation = convolution((1, 20, 6, 5), (17, 3, 3), pads=(1, 1, 1, 1))
    return region_of_one(operation), {"image": image(operation), "result": direct(operation, image(operation)).astype(np.int8)}


def with_field(compiled: CompiledRegion, index: int, name: str, value: int) -> CompiledRegion:
    """The same program, one field of one instruction changed."""
    program = compiled.program
    kind = int(program.kind[index])
    column = program.columns[kind][name].copy()
    column[int(program.row[index])] = value
    columns = tuple({**own, name: column} if k == kind else own for k, own in enumerate(program.columns))
    return replace(compiled, program=replace(program, columns=columns))


def with_byte(compiled: CompiledRegion, offset: int) -> CompiledRegion:
    """The same program with one bit of its constants flipped."""
    data = bytearray(compiled.constants["all"])
    data[offset] ^= 0x40
    return replace(compiled, constants={"all": bytes(data)})
