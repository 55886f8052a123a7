"""Inputs of a model that become stored integers, which have no number for NaN: such a sample is refused, not run as if it held zeros."""

from collections.abc import Iterable, Mapping

import numpy as np
import onnx

from toolchain.graph.integers.functions import INTEGER
from toolchain.graph.rewrite import ONNX_DOMAINS
from toolchain.runtime.contents import Interface
from toolchain.spec.arrays import Array
from toolchain.spec.errors import fail

QUANTIZE = "quantize"
KEEP_NAN = frozenset(
    ("Identity", "Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Concat", "Add", "Sub", "Mul", "Div", "Neg", "Abs", "Sqrt", "Exp", "Tanh")
)
"""Operators of the standard whose result holds NaN wherever one of their floating operands does."""


def integer_inputs(inputs: Iterable[Interface], segments: Iterable[onnx.ModelProto]) -> frozenset[str]:
    """The floating inputs that become integers as they are, or after operators that keep NaN. segments: of the host, in the order of the plan."""
    behind = {entry.name: frozenset((entry.name,)) for entry in inputs if entry.dtype.startswith("float")}
    found: set[str] = set()
    for node in (node for segment in segments for node in segment.graph.node):
        sources = frozenset[str]().union(*(behind.get(name, ()) for name in node.input))
        if to_integers(node):
            found |= sources
        elif node.domain in ONNX_DOMAINS and node.op_type in KEEP_NAN:
            for name in node.output:
                behind[name] = sources
    return frozenset(found)


def to_integers(node: onnx.NodeProto) -> bool:
    """Whether it makes stored integers of floats; a machine of floats only rounds, by a call without a scale."""
    own = node.domain.startswith(INTEGER) and node.op_type.split("__")[0] == QUANTIZE
    return own and any(attribute.name == "scale" for attribute in node.attribute)


def check_numbers(inputs: Mapping[str, Array], names: frozenset[str]) -> None:
    """Raises UserError E1134 with the place of the first NaN in the named inputs."""
    for name in sorted(names & inputs.keys()):
        missing = np.isnan(inputs[name])
        if missing.any():
            place = ", ".join(map(str, np.unravel_index(int(missing.argmax()), missing.shape)))
            others = int(missing.sum()) - 1
            more = f"; so {'does 1 more place' if others == 1 else f'do {others} more places'}" if others else ""
            text = f"the input '{name}' holds NaN at [{place}], and becomes integers, which have no such number{more}"
            raise fail("E1134", text, hint="mend the data, or replace NaN before the run")
