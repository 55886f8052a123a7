"""Random regions, and what they must give: every operation by the integer reference, which knows nothing of machines."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.operations import made
from toolchain.abi.dram_map import Shape
from toolchain.operations.operation import Operation
from toolchain.schedule.regions.region import Bound, Region, Slice
from toolchain.spec.model.quantisation import Numerics

Array = NDArray[Any]


def expected(region: Region, inputs: Mapping[str, Array], numerics: Numerics) -> dict[str, Array]:
    """Every tensor of the region, int8 [batch, channels, height, width]."""
    known = dict(inputs)
    for bound in region.operations:
        operands = {name: _tensor(region, known, bound.tensors[name]) for name in bound.operation.kind.data}
        known[bound.tensors["y"]] = bound.operation.run(operands, numerics)
    return {name: _tensor(region, known, name) for name in region.tensors}


def _tensor(region: Region, known: Mapping[str, Array], name: str) -> Array:
    if name in known:
        return known[name]
    parts = sorted((region.slices[child].channel, child) for child in region.parts.get(name, ()))
    if parts:
        return np.concatenate([_tensor(region, known, child) for _, child in parts], axis=1)
    part = region.slices[name]
    return _tensor(region, known, part.parent)[:, part.channel : part.channel + region.tensors[name].channels]


@dataclass
class Builder:
    """A region that grows by random operations of the kinds that a machine has kernels for. block: channels at whose multiples a tensor may begin
    inside another, as partitioning has it."""

    rng: np.random.Generator
    kinds: Collection[str]
    batch: int = 1
    low: int = -128
    bias: int = 3000
    block: int = 16
    tensors: dict[str, Shape] = field(default_factory=dict[str, Shape])
    operations: list[Bound] = field(default_factory=list[Bound])
    slices: dict[str, Slice] = field(default_factory=dict[str, Slice])
    inputs: list[str] = field(default_factory=list[str])

    def region(self, steps: int) -> Region:
        """A region of so many steps; what nobody reads is its output."""
        size = int(self.rng.integers(5, 12))
        self.tensors["in0"] = Shape(self.batch, int(self.rng.choice([3, 16, 32])), size, size + int(self.rng.integers(0, 3)))
        self.inputs.append("in0")
        for _ in range(steps):
            self.step()
        read = {name for bound in self.operations for key, name in bound.tensors.items() if key != "y"}
        ends = tuple(n for n in self.tensors if n not in read and n not in self.slices)
        return Region("random", self.tensors, tuple(self.inputs), ends, tuple(self.operations), self.slices)

    def step(self) -> None:
        """One operation, a concat or a view, of tensors that are there."""
        kind = str(self.rng.choice([*sorted(self.kinds), "concat", "view"]))
        if kind == "concat":
            self.concat()
        elif kind == "view":
            self.view()
        elif kind == "add":
            self.add()
        else:
            self.window(kind)

    def source(self) -> str:
        """Any tensor."""
        return str(self.rng.choice(sorted(self.tensors)))

    def end(self) -> made.Requantise:
        low = int(self.rng.choice([0, self.low]))
        return made.Requantise(int(self.rng.integers(1, 9)), low, int(self.rng.choice([127, 127, 127, 127, 90])))

    def put(self, operation: Operation, **sources: str) -> None:
        name = f"t{len(self.operations)}"
        self.tensors[name] = Shape(*operation.output)
        self.operations.append(Bound(operation, {**sources, "y": name}))

    def window(self, kind: str) -> None:
        """An operation with one operand."""
        source = self.source()
        shape, name = tuple(self.tensors[source]), f"op{len(self.operations)}"
        kernel = int(self.rng.choice([1, 2, 3]))
        pad = int(self.rng.integers(0, (kernel + 1) // 2))
        window = made.Window((kernel, kernel), (int(self.rng.integers(1, 3)),) * 2, (pad, pad, pad, pad))
        if min(shape[2:]) + 2 * pad < kernel or (kind == "upsample" and shape[2] > 12):
            return
        channels = int(self.rng.choice([16, 32, 24]))
        end = self.end()
        match kind:
            case "conv2d":
                weight, bias = self.weights((channels, shape[1], kernel, kernel))
                options = {"shift": end.shift + 6, "low": end.low, "high": end.high}
                self.put(made.conv2d(name, shape, weight, bias, window.strides, window.pads, **options), x=source)
            case "depthwise":
                weight, bias = self.weights((shape[1], kernel, kernel))
                self.put(made.depthwise(name, shape, weight, bias, window, end), x=source)
            case "max_pool":
                self.put(made.max_pool(name, shape, window), x=source)
            case "average_pool":
                self.put(made.average_pool(name, shape, window, int(self.rng.integers(1, 64)), end), x=source)
            case _:
                self.put(made.upsample(name, shape, (2, 2)), x=source)

    def weights(self, shape: tuple[int, ...]) -> tuple[NDArray[np.int8], NDArray[np.int32]]:
        return self.rng.integers(-127, 128, shape, np.int8), self.rng.integers(-self.bias, self.bias, shape[0]).astype(np.int32)

    def add(self) -> None:
        """Two tensors of one shape, where there are two."""
        source = self.source()
        other = str(self.rng.choice([n for n in sorted(self.tensors) if self.tensors[n] == self.tensors[source]]))
        factors = [1 << int(self.rng.integers(0, 3)), 1]
        self.rng.shuffle(factors)
        self.put(made.add(f"op{len(self.operations)}", tuple(self.tensors[source]), *factors, self.end()), x=source, z=other)

    def concat(self) -> None:
        """Tensors of one size that are not in another concat yet, all but the last with whole blocks of channels."""
        free = [n for n in sorted(self.tensors) if n not in self.slices]
        first = str(self.rng.choice(free))
        _, channels, *size = self.tensors[first]
        others = [n for n in free if n != first and [*self.tensors[n][2:]] == size]
        if channels % self.block or not others:
            return
        second, name = str(self.rng.choice(others)), f"cat{len(self.slices)}"
        self.tensors[name] = Shape(self.batch, channels + self.tensors[second].channels, size[0], size[1])
        self.slices |= {first: Slice(name, 0), second: Slice(name, channels)}

    def view(self) -> None:
        """Some whole blocks of the channels of a tensor that has several, or all from one on."""
        wide = [n for n in sorted(self.tensors) if self.tensors[n].channels > self.block]
        if not wide:
            return
        source = str(self.rng.choice(wide))
        batch, channels, *size = self.tensors[source]
        first = self.block * int(self.rng.integers(0, (channels - 1) // self.block + 1))
        end = int(self.rng.choice([*range(first + self.block, channels, self.block), channels]))
        name = f"view{len(self.slices)}"
        self.tensors[name] = Shape(batch, end - first, size[0], size[1])
        self.slices[name] = Slice(source, first, view=True)
