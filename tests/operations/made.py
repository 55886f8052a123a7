"""Operations of the tests, by the numbers that matter to them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolchain.operations.library import builtin_kinds
from toolchain.operations.operation import Operation, make_operation
from toolchain.spec.load import load_machine as load
from toolchain.spec.model import Machine

LEAST = {"dpuv3": {"LOWEST": "-128"}}
"""Parameters of machines that have the least activation of operations that tests make, -128."""
Picture = tuple[int, int, int, int]
Array = NDArray[Any]


def load_machine(name: str, config: str = "", overrides: Mapping[str, str] | None = None) -> Machine:
    """The machine, one that stores -128 where its file lets one choose."""
    return load(name, config, {**LEAST.get(name.partition(":")[0], {}), **(overrides or {})})


@dataclass(frozen=True)
class Window:
    """kernel, strides, dilations: (rows, columns). pads: top, left, bottom, right."""

    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    pads: Picture = (0, 0, 0, 0)
    dilations: tuple[int, int] = (1, 1)

    @property
    def numbers(self) -> dict[str, Any]:
        return {"kernel_shape": self.kernel, "strides": self.strides, "pads": self.pads, "dilations": self.dilations}


@dataclass(frozen=True)
class Requantise:
    """How sums become stored integers."""

    shift: int = 0
    low: int = -128
    high: int = 127
    slope: int = 0
    slope_shift: int = 0


def made(kind: str, name: str, inputs: dict[str, Picture], arrays: dict[str, Array], **numbers: Any) -> Operation:
    return make_operation(builtin_kinds()[kind], name, inputs, arrays, numbers)


def conv2d(
    name: str, shape: Picture, weight: Array, bias: Array, strides: tuple[int, int] = (1, 1), pads: Picture = (0, 0, 0, 0), **more: Any
) -> Operation:
    return made("conv2d", name, {"x": shape}, {"weight": weight, "bias": bias}, strides=strides, pads=pads, **more)


def depthwise(name: str, shape: Picture, weight: Array, bias: Array, window: Window, end: Requantise) -> Operation:
    return made("depthwise", name, {"x": shape}, {"weight": weight, "bias": bias}, **window.numbers, **asdict(end))


def max_pool(name: str, shape: Picture, window: Window) -> Operation:
    return made("max_pool", name, {"x": shape}, {}, **window.numbers)


def average_pool(name: str, shape: Picture, window: Window, multiply: int = 1, end: Requantise | None = None) -> Operation:
    return made("average_pool", name, {"x": shape}, {}, multiply=multiply, **window.numbers, **asdict(end or Requantise()))


def add(name: str, shape: Picture, multiply_x: int = 1, multiply_z: int = 1, end: Requantise | None = None) -> Operation:
    return made("add", name, {"x": shape, "z": shape}, {}, multiply_x=multiply_x, multiply_z=multiply_z, **asdict(end or Requantise()))


def upsample(name: str, shape: Picture, factors: tuple[int, int]) -> Operation:
    return made("upsample", name, {"x": shape}, {}, factors=factors)


def conv_transpose(
    name: str, shape: Picture, weight: Array, strides: tuple[int, int], pads: Picture = (0, 0, 0, 0), more: tuple[int, int] = (0, 0), shift: int = 6
) -> Operation:
    """weight: [filters, channels, rows, columns]."""
    bias = np.arange(len(weight), dtype=np.int32)
    known = {"weight": weight, "bias": bias}
    return made("conv_transpose", name, {"x": shape}, known, strides=strides, pads=pads, output_padding=more, shift=shift)


def pads(operation: Operation) -> Picture:
    n = operation.numbers
    return n["pad_top"], n["pad_left"], n["pad_bottom"], n["pad_right"]


def strides(operation: Operation) -> tuple[int, int]:
    return operation.numbers["sh"], operation.numbers["sw"]


def dilations(operation: Operation) -> tuple[int, int]:
    return operation.numbers["dh"], operation.numbers["dw"]
