"""A whole integer network: in the numpy reference, and in ONNX Runtime with every stored tensor shown."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from toolchain.graph.integers.calls import run_call
from toolchain.graph.integers.functions import is_integer
from toolchain.graph.integers.numerics import Numerics
from toolchain.graph.integers.ort_selftest import check_oracle
from toolchain.graph.nodes.rewrite import constant
from toolchain.graph.running.graph_session import open_model
from toolchain.graph.running.session import run_session
from toolchain.operations.library import Kinds, builtin_kinds

STORED = (ir.DataType.INT8, ir.DataType.UINT8)
Array = np.typing.NDArray[Any]


def integer_tensors(model: ir.Model) -> list[ir.Value]:
    """The stored results of integer calls, in the order of the graph."""
    return [node.outputs[0] for node in model.graph if is_integer(node) and node.outputs[0].dtype in STORED]


def run_oracle(model: ir.Model, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """ONNX Runtime's results: outputs and every stored tensor, by name. Raises UserError E0910 and E0914."""
    check_oracle()
    return run_session(open_model(model, integer_tensors(model)), inputs)


def run_reference(model: ir.Model, inputs: Mapping[str, Array], numerics: Numerics, kinds: Kinds | None = None) -> dict[str, Array]:
    """All integer tensors by the numpy reference; those that depend on a host operator are left out."""
    known: dict[ir.Value, Array] = {value: inputs[value.name or ""] for value in model.graph.inputs}
    for node in model.graph:
        operands = [known.get(value) if (array := constant(value)) is None else array for value in node.inputs if value is not None]
        given = [operand for operand in operands if operand is not None]
        if is_integer(node) and len(given) == len(operands):
            known[node.outputs[0]] = run_call(node, given, numerics, kinds or builtin_kinds())
    return {value.name or "": array for value, array in known.items() if not value.is_graph_input()}
