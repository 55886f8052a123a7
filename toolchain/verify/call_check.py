"""Runs the functions of a machine's C library on random operations, in tensors of their own and in parts of wider ones, against their meaning."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from toolchain.abi.dram_map import Shape, get_tensor, put_tensor
from toolchain.codegen.c99 import c99_code
from toolchain.codegen.generator import RegionCode
from toolchain.operations.library import Kinds
from toolchain.operations.operation import Operation
from toolchain.runtime.device import ByteRange, Bytes
from toolchain.runtime.open_region import compile_c
from toolchain.runtime.transfers import buffer_of
from toolchain.schedule.backend import Backend
from toolchain.schedule.calls import plan_calls
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.regions.region import Bound, Region, Slice
from toolchain.spec.arrays import Array
from toolchain.spec.errors import UserError, described, fail
from toolchain.spec.model import Machine
from toolchain.spec.model.quantisation import Numerics
from toolchain.verify.compare import told_difference
from toolchain.verify.kernel_check import TRIES, KernelChecked, none_passes, operations_for

ROOM = 5
"""Channels that a wider tensor has more than the one in it, at most."""


def check_call(machine: Machine, kernel: Kernel, kinds: Kinds, count: int = 6, seed: int = 0) -> KernelChecked:
    """All operations in one compiled file. Raises UserError E1305 for a result that differs, with the numbers, E1306 where no random operation
    passes the kernel's conditions, E1308 where the kernel cannot be carried out, E0710 and E0711 where nothing can be compiled."""
    with described(kernel.span, f"the check of kernel '{kernel.name}'"):
        return _checked(machine, kernel, kinds, count, seed)


def _checked(machine: Machine, kernel: Kernel, kinds: Kinds, count: int, seed: int) -> KernelChecked:
    rng, backend = np.random.default_rng(seed), Backend(machine, {kernel.name: kernel})
    cases, refused = list[tuple[Operation, Region, RegionCode]](), 0
    for problem in operations_for(machine, kernel, kinds[kernel.computes], rng):
        if problem is None:
            refused += 1
            if refused > TRIES * (len(cases) + 1):
                break
            continue
        region = _region(f"case{len(cases)}", problem.operation, rng)
        cases.append((problem.operation, region, c99_code(machine, plan_calls(backend, region))))
        if len(cases) == count:
            break
    if not cases:
        raise none_passes(machine, kernel, kinds, refused)
    source = b"\n".join(code.blob for _, _, code in cases)
    for operation, region, code in cases:
        _compare(machine, kernel, operation, region, replace(code, blob=source), rng)
    return KernelChecked(kernel.name, kernel.computes, len(cases), refused, len(cases))


def _region(name: str, operation: Operation, rng: np.random.Generator) -> Region:
    """The operation alone; its operands and its result may stand in the middle of wider tensors."""
    pictures = {operand: operation.input(operand) for operand in operation.kind.data} | {"y": operation.output}
    tensors = {tensor: Shape(*picture) for tensor, picture in pictures.items()}
    inputs, outputs, slices = list(operation.kind.data), ["y"], dict[str, Slice]()
    for tensor, shape in list(tensors.items()):
        before, after = (int(rng.integers(0, ROOM)) for _ in range(2))
        if not before + after or rng.integers(2):
            continue
        tensors[f"{tensor}_whole"] = shape._replace(channels=before + shape.channels + after)
        slices[tensor] = Slice(f"{tensor}_whole", before, view=tensor != "y")
        side = outputs if tensor == "y" else inputs
        side[side.index(tensor)] = f"{tensor}_whole"
    bound = Bound(operation, {tensor: tensor for tensor in pictures})
    return Region(name, tensors, tuple(inputs), tuple(outputs), (bound,), slices)


def _compare(machine: Machine, kernel: Kernel, operation: Operation, region: Region, code: RegionCode, rng: np.random.Generator) -> None:
    """Raises UserError E1305."""
    numerics, held = machine.quantisation or Numerics(), code.map
    given = {name: _random(numerics, region.tensors[name], rng) for name in region.inputs}
    compiled = compile_c(machine, region.name, held, code.function, code.blob, code.files, code.constants)
    writes: dict[ByteRange, Bytes] = {}
    for name, values in given.items():
        where = buffer_of(held, name)
        put_tensor(machine, held.tensors[name], writes.setdefault(where, np.zeros(where.bytes, np.uint8)), values)
    (output,) = region.outputs
    beside = _random(numerics, region.tensors[output], rng)  # bytes beside the result stay as they are
    where = buffer_of(held, output)
    put_tensor(machine, held.tensors[output], writes.setdefault(where, np.zeros(where.bytes, np.uint8)), beside)
    found = get_tensor(machine, held.tensors[output], compiled.run(writes, [where]).data[0])
    operands = {name: _part(region, name, given) for name in operation.kind.data}
    wanted = beside.copy()
    _view(region, "y", wanted)[...] = operation.run(operands, numerics)
    if not np.array_equal(found, wanted):
        raise _differs(kernel, operation, found, wanted)


def _random(numerics: Numerics, shape: Shape, rng: np.random.Generator) -> Array:
    return rng.integers(numerics.activation.low, numerics.activation.high + 1, tuple(shape)).astype(numerics.stored)


def _part(region: Region, name: str, given: Mapping[str, Array]) -> Array:
    return _view(region, name, given[region.slices[name].parent if name in region.slices else name])


def _view(region: Region, name: str, whole: Array) -> Array:
    """The channels of a tensor in the one that it stands in."""
    first = region.slices[name].channel if name in region.slices else 0
    return whole[:, first : first + region.tensors[name].channels]


def _differs(kernel: Kernel, operation: Operation, found: Array, wanted: Array) -> UserError:
    numbers = ", ".join(f"{name} {operation.numbers[name]}" for name in operation.kind.numbers)
    told = told_difference(wanted, found, found != wanted)
    return fail("E1305", f"kernel '{kernel.name}' {told}, for {numbers}", kernel.span)
