"""Leaves fused operations to the host, in floating point; an activation goes first, so that its convolution may still be the machine's."""

import math
from collections.abc import Mapping, Sequence

import onnx_ir as ir

from toolchain.graph.equivalence import STEP
from toolchain.graph.integers.calls import (
    FLOAT_NAME,
    Reasons,
    fused_call,
    is_candidate,
    note_reasons,
    note_refusals,
    read_call,
    refusals_of,
)
from toolchain.graph.integers.functions import FUSED, kind_of, variant_of
from toolchain.graph.nodes import REASON
from toolchain.graph.operators import limits_of
from toolchain.graph.quantisation.scales import tensors_of
from toolchain.graph.quantisation.table import Table
from toolchain.graph.rewrite import clip, is_operator, single_use, substitute
from toolchain.graph.work import node_macs
from toolchain.operations.library import Kinds
from toolchain.operations.numbers import Attributes
from toolchain.passes.budget import Costly
from toolchain.passes.fuse import INNER, note_sources, sources_of
from toolchain.spec.reason import Reason
from toolchain.spec.reasons import Why

WIDENED = "tilewright.widened"
"""Metadata of a call: the range of a quantised model's own integers, where the machine's range stands in for it."""
REACHED = 0.9995
"""Share of a tensor's values that a range must hold to be widened."""
ACTIVATIONS = ("relu", "clip", "leaky")
LIMITS = ("Clip", "Relu")
"""Operators whose limits a conversion to integers takes over."""
OPERATORS = (*LIMITS, "LeakyRelu")


def leave_unseen(model: ir.Model, table: Table, kinds: Kinds) -> None:
    """Leaves calls with a tensor for which calibration found no range. Raises UserError E0918 later for one that it did not look at."""
    for node in model.graph:
        if is_candidate(node):
            reason = _unseen(node, table, kinds)
            if reason:
                note_reasons(node, reason)


def _unseen(node: ir.Node, table: Table, kinds: Kinds) -> Reason | None:
    if table.failure:
        return Why.NO_RANGES(failure=table.failure)
    names = tensors_of(read_call(node, kinds))
    bad = next((name for name in names if name in table.unusable), None)
    if bad is not None:
        return Why.UNUSABLE(tensor=bad)
    undeclared = next((name for name in names if name not in table.tensors), None) if table.samples == 0 else None
    return None if undeclared is None else Why.UNDECLARED(tensor=undeclared)


def leave_border_activations(model: ir.Model, kinds: Kinds) -> None:
    """Leaves an activation alone to the host where the host makes its operand: the conversion after it may take its limits over."""
    for node in list(model.graph):
        if not is_candidate(node) or not _is_activation_alone(node, kinds) or is_candidate(node.inputs[0].producer() if node.inputs[0] else None):
            continue
        (value,), output = [value for value in node.inputs if value is not None], node.outputs[0]
        name = " ".join(sources_of(node)) or output.name or ""
        active = _activation(model.graph, variant_of(node), read_call(node, kinds).attributes, value, name)
        note_reasons(active, Why.HOST_OPERAND())
        substitute(model.graph, [node], [active])


def _is_activation_alone(node: ir.Node, kinds: Kinds) -> bool:
    """Whether a call is the average of one pixel, with an activation."""
    call = read_call(node, kinds)
    return call.operation.form == "average" and variant_of(node) in ACTIVATIONS and tuple(call.attributes["kernel_shape"]) == (1, 1)


def leave_calls(model: ir.Model, reasons: Mapping[str, Reasons], table: Table, kinds: Kinds) -> None:
    """reasons: by name of a fused call, why the machine does not take it. table: calibration's, which tells whether limits matter.

    A call that would not pay stays whole: without its activation it pays no more.
    """
    for node in list(model.graph):
        against = reasons.get(node.name or "")
        if against is None or not is_candidate(node):
            continue
        if any(Why.DEARER.gave(reason) or Why.LOSS.gave(reason) for reason in against):
            note_reasons(node, *against)
        elif _is_widened(node, table, kinds):
            _widen(model, node, kinds)
        elif variant_of(node) in ACTIVATIONS and not _is_activation_alone(node, kinds):
            _split(model, node, against, kinds)
        else:
            note_reasons(node, *against)


def leave_worst(model: ir.Model, errors: Mapping[str, float], percent: float) -> bool:
    """Leaves the layers with the largest errors to the host, worst first, as long as they have no more than `percent` of all multiply-accumulates.

    errors: by name of a call, as a share of its output's energy. Answers whether one is left.
    """
    calls = {node.name or "": node for node in model.graph if is_candidate(node)}
    spare = percent / 100 * sum(node_macs(node) for node in model.graph)
    left = False
    for name, error in sorted(errors.items(), key=lambda item: (-item[1], item[0])):
        macs = node_macs(calls[name])
        if macs <= spare:
            spare, left = spare - macs, True
            note_reasons(calls[name], Why.INTEGER_ERROR(percent=float(f"{100 * error:.6g}")))
    return left


def leave_costly(model: ir.Model, costly: Sequence[Costly]) -> bool:
    """Leaves calls whose integers cost the outputs too much to the host. Answers whether one is left."""
    calls = {node.name or "": node for node in model.graph if is_candidate(node)}
    for each in costly:
        percent = float(f"{100 * each.share:.6g}")
        reason = Why.COSTLY_UNPRICED(percent=percent) if each.ms is None else Why.COSTLY(percent=percent, ms=float(f"{each.ms:.6g}"))
        note_reasons(calls[each.name], reason)
    return bool(costly)


def _is_widened(node: ir.Node, table: Table, kinds: Kinds) -> bool:
    """Whether a Clip is only the range of the stored integers of a quantised model, which calibration did not see reached."""
    if variant_of(node) != "clip" or STEP not in node.outputs[0].metadata_props:
        return False
    seen, attributes = table.tensors.get(node.metadata_props.get(INNER, "")), read_call(node, kinds).attributes
    least = min(-attributes["minimum"] if attributes["minimum"] < 0 else attributes["maximum"], attributes["maximum"])
    return seen is not None and table.samples > 0 and seen.spread.percentile(REACHED) <= least


def _widen(model: ir.Model, node: ir.Node, kinds: Kinds) -> None:
    """The machine's own range stands in for that of the model's stored integers; a zero below which the model stored nothing stays."""
    call = read_call(node, kinds)
    variant = "" if call.attributes["minimum"] < 0 else "relu"
    plain = fused_call(model, call.operation, variant, [value for value in node.inputs if value is not None], call.attributes, call.name)
    plain.metadata_props.update(node.metadata_props | {WIDENED: f"{call.attributes['minimum']:.6g} to {call.attributes['maximum']:.6g}"})
    substitute(model.graph, [node], [plain])


def _split(model: ir.Model, node: ir.Node, reasons: Reasons, kinds: Kinds) -> None:
    """The operation without its activation, and the activation as an operator of its own on the host."""
    graph, call, output = model.graph, read_call(node, kinds), node.outputs[0]
    plain = fused_call(model, call.operation, "", [value for value in node.inputs if value is not None], call.attributes, call.name)
    sources = sources_of(node)
    note_sources(plain, sources[:-1] or sources)
    note_refusals(plain, refusals_of(node))
    inner = plain.outputs[0]
    inner.name, inner.shape, inner.type = node.metadata_props.get(INNER) or f"{output.name}.before", output.shape, output.type
    active = _activation(graph, variant_of(node), call.attributes, inner, sources[-1] if len(sources) > 1 else f"{call.name}.activation")
    note_reasons(active, *reasons)
    note_refusals(active, refusals_of(node))
    substitute(graph, [node], [plain, active])


def rejoin_activations(model: ir.Model, kinds: Kinds) -> None:
    """Undoes the split of calls that no machine took: another machine may take the whole. All have their reasons still."""
    for node in list(model.graph):
        active = _split_activation(node, kinds)
        found = None if active is None else _read_activation(active)
        if active is None or found is None:
            continue
        (variant, further), call, inner = found, read_call(node, kinds), node.outputs[0]
        inputs = [value for value in node.inputs if value is not None]
        whole = fused_call(model, call.operation, variant, inputs, {**call.attributes, **further}, call.name)
        whole.metadata_props.update(node.metadata_props | {INNER: inner.name or ""})
        note_sources(whole, [*sources_of(node), *sources_of(active)])
        substitute(model.graph, [active, node], [whole])


def _split_activation(node: ir.Node, kinds: Kinds) -> ir.Node | None:
    """The activation on the host that alone reads a call without one, both left for the same reason."""
    if node.domain != FUSED or variant_of(node) or REASON not in node.metadata_props or not single_use(node.outputs[0]):
        return None
    ((reader, _),) = node.outputs[0].uses()
    alike = is_operator(reader, *OPERATORS) and reader.metadata_props.get(REASON) == node.metadata_props[REASON]
    return reader if alike and read_call(node, kinds).operation.activates else None


def release_activations(model: ir.Model) -> None:
    """Conversions that took over the limits of an activation on the host read it again: another machine may take it with the operation before it."""
    for active in model.graph:
        if is_operator(active, *LIMITS) and (source := active.inputs[0]) is not None:
            _move_conversions(active, source, active.outputs[0])


def absorb_activations(model: ir.Model) -> None:
    """Undoes that where the activation is still on the host; one that nothing else reads goes."""
    for active in reversed(list(model.graph)):
        if is_operator(active, *LIMITS) and (source := active.inputs[0]) is not None:
            _move_conversions(active, active.outputs[0], source)
            if not active.outputs[0].uses() and not active.outputs[0].is_graph_output():
                model.graph.remove(active, safe=True)


def _move_conversions(active: ir.Node, value: ir.Value, other: ir.Value) -> None:
    """Conversions of the activation's result that read a value read the other one: its limits are theirs as well, so they give the same."""
    for reader, index in list(value.uses()):
        standing = kind_of(reader) == "quantize" and reader.outputs[0].metadata_props.get(FLOAT_NAME) == active.outputs[0].name
        if standing and (len(reader.inputs) == 1 or is_operator(active, "Relu")):  # each channel would have a limit of its own
            reader.replace_input_with(index, other)


def _read_activation(active: ir.Node) -> tuple[str, dict[str, float]] | None:
    """Variant and attributes of a call with it; None where its limits are not known."""
    if active.op_type == "LeakyRelu":
        return "leaky", {"alpha": active.attributes["alpha"].as_float() if "alpha" in active.attributes else 0.01}
    limits = limits_of(active)
    if limits is None or not math.isfinite(limits.low):
        return None
    return ("clip", {"minimum": limits.low, "maximum": limits.high}) if math.isfinite(limits.high) else ("relu", {}) if limits.low == 0 else None


def _activation(graph: ir.Graph, variant: str, attributes: Attributes, value: ir.Value, name: str) -> ir.Node:
    if variant == "leaky":
        return ir.node("LeakyRelu", [value], {"alpha": float(attributes["alpha"])}, name=name, num_outputs=1)
    if variant == "relu":
        return ir.node("Relu", [value], name=name, num_outputs=1)
    limits = (attributes["minimum"], attributes["maximum"])
    return clip(graph, value, limits, name, (f"{name}.minimum", f"{name}.maximum"))
