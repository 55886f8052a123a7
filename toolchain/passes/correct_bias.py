"""Cross-layer bias correction: layer by layer, the integer network's mean of each channel is moved onto the float network's."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from toolchain.graph.calibration.table import joined
from toolchain.graph.integers.calls import BOUNDARY, FLOAT_NAME, SCALE, Call, read_call, run_call
from toolchain.graph.integers.functions import kind_of
from toolchain.graph.quantisation.requantisation import too_large
from toolchain.graph.rewrite import constant
from toolchain.operations.ending import SCALINGS, Scaling, scaling_of
from toolchain.operations.reference import call_sums
from toolchain.passes.context import Context, Pass
from toolchain.passes.fuse import INNER
from toolchain.spec.arrays import Array
from toolchain.spec.errors import fail
from toolchain.spec.model.quantisation import Numerics


@dataclass(frozen=True)
class CorrectBias(Pass):
    """Runs the numpy reference, so the outcome is the same everywhere. samples: how many of the calibration's are used."""

    name: ClassVar[str] = "correct_bias"
    requires: ClassVar[tuple[str, ...]] = ("quantized",)
    ensures: ClassVar[tuple[str, ...]] = ("quantized",)
    samples: int = 8

    def run(self, model: ir.Model, context: Context) -> ir.Model:
        numerics, table = context.numerics, context.table
        if numerics is None or table is None or not context.samples:
            raise fail("E0918", "there is no calibration table, no sample, or no machine to quantise for", place=context.place)
        known: dict[ir.Value, Array] = {value: joined(context.samples[value.name or ""][: self.samples]) for value in model.graph.inputs}
        for node in model.graph:
            operands = [known.get(value) if (array := constant(value)) is None else array for value in node.inputs if value is not None]
            if node.domain != context.domain or any(operand is None for operand in operands):
                continue
            given = [operand for operand in operands if operand is not None]
            seen = table.tensors.get(node.metadata_props.get(INNER) or node.outputs[0].metadata_props.get(FLOAT_NAME, ""))
            call = None if kind_of(node) in BOUNDARY else read_call(node, context.kinds)
            if call is not None and call.operation.bias and seen is not None and len(seen.means) == len(given[1]):
                given[2] = _corrected(node, call, given, np.asarray(seen.means), numerics)
            known[node.outputs[0]] = run_call(node, given, numerics, context.kinds)
        return model


def _corrected(node: ir.Node, call: Call, operands: list[Array], wanted: Array, numerics: Numerics) -> Array:
    """The bias with the difference of the means added; as before where the sum would no longer fit."""
    sums = call_sums(call.operation, call.attributes, operands[:3])
    step = _step(node, call, operands, numerics)
    rows = call.operation.operand[call.operation.bias].axes
    means = sums.mean(tuple(axis for axis, index in enumerate(call.operation.result.axes) if index not in rows))
    change = (wanted / step - means) / 2.0 ** call.attributes["bias_shift"]
    bias = np.clip(operands[2] + np.rint(change).astype(np.int64), numerics.bias.low, numerics.bias.high)
    value = node.inputs[2]
    shift = _scaling(call, operands, numerics).shift if numerics.form == "power_of_two" else 0
    zero = call.attributes.get(f"zero_{call.operation.data[0]}", 0)
    if value is None or too_large(operands[1], bias << call.attributes["bias_shift"], shift, numerics, zero).any():
        return operands[2]
    value.const_value = ir.Tensor(bias.astype(np.int32), name=value.name)
    return bias.astype(np.int32)


def _step(node: ir.Node, call: Call, operands: list[Array], numerics: Numerics) -> Any:
    """The value of one unit of the sum: the output's scale times the scale of the sum."""
    result = float.fromhex(node.outputs[0].metadata_props[SCALE])
    found = _scaling(call, operands, numerics)
    return result * found.factor.astype(np.float64) / 2.0**found.shift


def _scaling(call: Call, operands: list[Array], numerics: Numerics) -> Scaling:
    own = operands[len(call.operation.operands) :]
    return scaling_of(dict(zip(SCALINGS[numerics.form], own, strict=True)) if own else call.attributes)
