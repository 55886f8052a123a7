"""Scales of tensors by the effect of their rounding and clipping on the outputs of the layers that read them, on samples.

A value that no weight makes anything of may be cut off, one that a large weight multiplies may not: the error of the values alone does not tell.
Weights and errors are rounded to whole numbers whose sums stay below 2**53, so that the choice does not depend on a processor's order of adding up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from toolchain.graph.integers.calls import Call
from toolchain.graph.quantisation.ranges import rounded
from toolchain.graph.quantisation.statistics import columns_of, groups_of, sampled
from toolchain.graph.quantisation.stepping import Stepper
from toolchain.graph.quantisation.table import Samples, ranging
from toolchain.spec.arrays import Array, Reals
from toolchain.spec.model.quantisation import Numerics

POSITIONS = 1 << 11
"""Output positions of a layer that are looked at, of all samples together."""
INPUT_PARTS = 1 << 6
"""Parts of a stored step to which float inputs and their errors are rounded."""
WEIGHT_PARTS = 1 << 16
"""Parts of the largest weight to which weights are rounded."""
DROPPED = 1 << 13
"""The divisor of an output's error before it is rounded: with 2**13 weights a row, sums of its squares stay below 2**53."""
LARGEST = 1 << 15
"""Parts of a step at which a value is cut off: 512 steps, more than the finest scale clips at."""
DIGITS = 3
"""Significant decimal digits of an error: scales that differ by less count as equal, and the coarsest is taken."""


@dataclass(frozen=True)
class Reader:
    """A layer that reads a tensor first. weights: its own, in floating point."""

    call: Call
    weights: Array


@dataclass
class Choice:
    """A group of tensors that share a scale. scales: those to choose from, the coarsest first. errors: of each, in shares of the readers' outputs."""

    scales: Sequence[float]
    zero: int = 0
    errors: list[float] = field(default_factory=list[float])

    def add(self, errors: Sequence[float]) -> None:
        self.errors = [a + b for a, b in zip(self.errors or [0.0] * len(self.scales), errors, strict=True)]

    @property
    def best(self) -> float:
        """The scale of least error."""
        found = [rounded(error, DIGITS) for error in self.errors]
        return self.scales[found.index(min(found))] if found else self.scales[0]


def judge_scales(
    model: ir.Model, choices: Mapping[str, Choice], readers: Mapping[str, Sequence[Reader]], samples: Samples, count: int, numerics: Numerics
) -> None:
    """Runs the float network on `count` samples and adds the errors of every choice up. choices, readers: by name of a tensor.

    A tensor that no layer reads is judged by its own values.
    """
    stepper = Stepper(model)
    stepper.feed(samples, count)
    for value in model.graph.inputs:
        _judge(value.name or "", ranging(value, stepper.values[value]), choices, readers, numerics)
    for node in model.graph:
        stepper.run(node)
        for value in node.outputs:
            if value.name in choices:
                _judge(value.name or "", ranging(value, stepper.values[value]), choices, readers, numerics)


def _judge(name: str, floats: Sequence[Array], choices: Mapping[str, Choice], readers: Mapping[str, Sequence[Reader]], numerics: Numerics) -> None:
    if name not in choices:
        return
    choice = choices[name]
    parts = [[_parts(array, scale, choice.zero, numerics) for array in floats] for scale in choice.scales]
    known = [(reader, _whole_rows(reader)) for reader in readers.get(name, ())]
    found = [[_output_share(*each, some) for some in parts] for each in known] or [[_value_share(some) for some in parts]]
    for errors in found:
        choice.add(errors)


@dataclass(frozen=True)
class _Parts:
    """A tensor of a sample in parts of a step: the values, and the errors of rounding and clipping them; int16."""

    values: Array
    errors: Array


def _parts(array: Array, scale: float, zero: int, numerics: Numerics) -> _Parts:
    steps = np.asarray(array, np.float32) / np.float32(scale)
    stored = np.clip(np.rint(steps), numerics.activation.low - zero, numerics.activation.high - zero)
    values = np.clip(np.rint(steps * INPUT_PARTS), -LARGEST, LARGEST - 1)
    return _Parts(values.astype(np.int16), np.clip(stored * INPUT_PARTS - values, -LARGEST, LARGEST - 1).astype(np.int16))


def _value_share(parts: Sequence[_Parts]) -> float:
    return _share(*(sum(_energy(array) for array in arrays) for arrays in ([p.errors for p in parts], [p.values for p in parts])))


def _energy(array: Array) -> float:
    return float(np.square(array.ravel().astype(np.float64)).sum())


def _share(noise: float, signal: float) -> float:
    return noise / signal if signal else 0.0


def _output_share(reader: Reader, rows: Reals, parts: Sequence[_Parts]) -> float:
    """The energy of the output's error over that of the output, without its bias. rows: the reader's weights, whole."""
    return _share(_output_energy(reader, rows, [p.errors for p in parts]), _output_energy(reader, rows, [p.values for p in parts]))


def _whole_rows(reader: Reader) -> Reals:
    """[groups, rows, k]."""
    weights, group = reader.weights, groups_of(reader.call)
    unit = (float(np.abs(weights).max(initial=0.0)) or 1.0) / WEIGHT_PARTS
    return np.rint(weights.reshape(group, len(weights) // group, -1).astype(np.float64) / unit)


def _output_energy(reader: Reader, rows: Reals, inputs: Sequence[Array]) -> float:
    call, shape = reader.call, reader.weights.shape
    places = sampled(call, inputs, shape, POSITIONS)
    columns = np.concatenate([columns_of(call, array, shape, some) for array, some in zip(inputs, places, strict=True)], 1).astype(np.float64)
    return _energy(np.rint(np.matmul(rows, columns.transpose(0, 2, 1)) / DROPPED))
