"""A region's tensors in the floating arithmetic that its machine declares: the numbers that it has to make, bit for bit.

ONNX Runtime adds up in an order of its own, so its results are near these and not the same; how near is told in dB.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from toolchain.accuracy.errors import Energy
from toolchain.graph.calibration.table import sample_count
from toolchain.graph.integers.calls import BOUNDARY, run_call
from toolchain.graph.integers.functions import is_integer, kind_of
from toolchain.graph.rewrite import constant
from toolchain.operations.library import Kinds
from toolchain.spec.arrays import Array
from toolchain.spec.model.quantisation import Numerics

Tensors = Mapping[str, Array]


@dataclass(frozen=True)
class Declared:
    """tensors: by name, [samples, *shape]. furthest: the one that ONNX Runtime's are furthest from, and its signal to noise in dB; empty and
    infinite where all are equal."""

    tensors: Tensors
    furthest: str = ""
    decibels: float = float("inf")

    @property
    def text(self) -> str:
        """One line of a verdict."""
        if not self.furthest:
            return "ONNX Runtime computes the same bits, in float32 rounded once"
        return f"ONNX Runtime, which adds up in another order, is {self.decibels:.1f} dB near or nearer; furthest in {self.furthest}"


def _unsaid(_text: str) -> None:
    """No progress is shown."""


def declared_tensors(
    integer: ir.Model, region: Collection[str], expected: Tensors, numerics: Numerics, kinds: Kinds, say: Callable[[str], object] = _unsaid
) -> Declared:
    """integer: the rounded network. region: names of the region's tensors. expected: ONNX Runtime's; those that the region reads are taken."""
    found, furthest, least = dict(expected), "", float("inf")
    computed = [node for node in integer.graph if is_integer(node) and kind_of(node) not in BOUNDARY and node.outputs[0].name in region]
    for number, node in enumerate(computed):
        name = node.outputs[0].name or ""
        say(f"tensor {number + 1} of {len(computed)} in the machine's own arithmetic")
        found[name] = _computed(node, found, numerics, kinds)
        near = Energy()
        near.add(expected[name], found[name])
        if near.sqnr < least:
            furthest, least = name, near.sqnr
    return Declared(found, furthest, least)


def _computed(node: ir.Node, known: Tensors, numerics: Numerics, kinds: Kinds) -> Array:
    """Sample by sample."""
    given = [(value.name or "", constant(value)) for value in node.inputs if value is not None]
    count = sample_count({name: known[name] for name, array in given if array is None})
    runs = ([known[name][number] if array is None else array for name, array in given] for number in range(count))
    return np.stack([run_call(node, operands, numerics, kinds) for operands in runs])
