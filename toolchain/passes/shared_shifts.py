"""Calls whose channels all have the same shift become calls of one shift."""

import onnx_ir as ir

from toolchain.graph.integers.calls import BOUNDARY, integer_call, read_call
from toolchain.graph.integers.functions import CHANNELS, kind_of, variant_of
from toolchain.graph.rewrite import constant, drop_unused_constants, substitute
from toolchain.operations.library import Kinds
from toolchain.spec.model.quantisation import Numerics


def share_shifts(model: ir.Model, numerics: Numerics, kinds: Kinds, domain: str) -> None:
    """Changes a quantised model in place, not its results. domain: of the machine's integers."""
    for node in list(model.graph):
        if node.domain == domain and node.op_type.endswith(CHANNELS) and kind_of(node) not in BOUNDARY:
            _share(model, node, numerics, kinds)
    called = {node.op_identifier() for node in model.graph}
    for key in [key for key in model.functions if key[0] == domain and key not in called]:
        del model.functions[key]
    drop_unused_constants(model.graph)


def _share(model: ir.Model, node: ir.Node, numerics: Numerics, kinds: Kinds) -> None:
    shifts, call = constant(node.inputs[-1]), read_call(node, kinds)
    if shifts is None or shifts.min() != shifts.max():
        return
    inputs = [value for value in node.inputs[:-1] if value is not None]
    attributes = {**call.attributes, "shift": int(shifts.min())}
    made = integer_call(model, call.operation, variant_of(node), inputs, attributes, call.name, numerics, node.domain)
    made.metadata_props.update(node.metadata_props)
    substitute(model.graph, [node], [made])
