"""Makes calls of fused operations out of the operators that templates match; the rest is left, each node with its reason."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import onnx_ir as ir

from toolchain.graph.integers.calls import fused_call, note_reasons, note_refusals, refusals_of
from toolchain.graph.integers.functions import FUSED, is_integer
from toolchain.graph.nodes import REASON
from toolchain.graph.rewrite import add_constant, drop_unused_constants, known_shape, substitute
from toolchain.operations.kind import OperationKind
from toolchain.passes.attention import FAMILIES as ATTENTIONS
from toolchain.passes.attention import family_for, find_attention, replace_attention
from toolchain.passes.bindings import Fused, New, bind
from toolchain.passes.context import Context, Device, Pass, wish_for
from toolchain.passes.lay_out_rotary import OPERATION as ROTARY
from toolchain.passes.lay_out_rotary import on_sequence, replace_rotary, takes_rotary
from toolchain.passes.matching import Match, find
from toolchain.passes.rotary import find_rotary
from toolchain.passes.templates import Template, default_templates
from toolchain.spec.reason import Reason
from toolchain.spec.reasons import Why

SOURCES, INNER = "tilewright.nodes", "tilewright.before_activation"
"""Metadata of a call: the nodes that it was made of; the tensor that its activation read."""


ONLY = "tilewright.only"
"""Metadata of a call: the machine that the user gives it to."""


def note_sources(call: ir.Node, names: Sequence[str]) -> None:
    """Keeps the names of the nodes that a call was made of: a name is one line, and may have spaces."""
    call.metadata_props[SOURCES] = "\n".join(names)


def sources_of(node: ir.Node) -> list[str]:
    """The names of the nodes that a call was made of; its own where it was made of none."""
    return node.metadata_props.get(SOURCES, node.name or "").split("\n")


FAMILIES: Mapping[str, str] = MappingProxyType(
    {
        "activation": "Sigmoid HardSigmoid HardSwish Swish Tanh Gelu Erf Mish Elu Selu Celu Softplus Softsign PRelu LeakyRelu Relu Clip "
        "ThresholdedRelu",
        "arithmetic": "Mul Div Sub Add Sum Pow Sqrt Exp Log Neg Abs Reciprocal Min Max Sign Floor Ceil Round Mod Where",
        "move of data": "Reshape Transpose Slice Split Gather GatherND Squeeze Unsqueeze Expand Tile Concat Pad Flatten DepthToSpace SpaceToDepth",
        "normalisation": "Softmax LogSoftmax LayerNormalization InstanceNormalization GroupNormalization RMSNormalization LRN LpNormalization "
        "ReduceMean ReduceSum",
        "recurrence": "LSTM GRU RNN DynamicQuantizeLSTM",
        "product": "MatMul Gemm Einsum ConvTranspose ConvInteger MatMulInteger",
    }
)
"""Operators of ONNX by their group, for reasons why no template begins with them."""


def unknown(node: ir.Node, device: Device | None = None) -> Reason:
    """The reason for a node with which no template of the machine begins."""
    return (device and device.recurrence(node)) or Why.NO_TEMPLATE(family=family_of(node.op_type) or f"operator like {node.op_type}")


def family_of(operator: str) -> str:
    """One of FAMILIES; empty for other operators."""
    return next((name for name, operators in FAMILIES.items() if operator in operators.split()), "")


@dataclass(frozen=True)
class Fuse(Pass):
    """keep: kinds of operations that are left alone."""

    name: ClassVar[str] = "fuse"
    requires: ClassVar[tuple[str, ...]] = ("no_constant_nodes", "no_identity")
    ensures: ClassVar[tuple[str, ...]] = ("fused",)
    keep: tuple[str, ...] = ()

    def run(self, model: ir.Model, context: Context) -> ir.Model:
        templates = [template for template in _templates(context) if template.computes not in self.keep]
        if not any(each.operations & set(self.keep) for each in ATTENTIONS):
            _fuse_attention(model, context)
        if ROTARY not in self.keep:
            _fuse_rotary(model, context)
        for node in reversed(list(model.graph)):
            if node.graph is not None and node.domain in ("", "ai.onnx"):
                _fuse(model, node, templates, context)
        for node in model.graph:
            if node.domain != FUSED and not is_integer(node) and REASON not in node.metadata_props:
                note_reasons(node, unknown(node, context.device))
        drop_unused_constants(model.graph)
        return model


def _fuse_attention(model: ir.Model, context: Context) -> None:
    """Attention becomes calls where the machine computes both of them and the user wants none of its nodes elsewhere."""
    if context.device is None:
        return
    for node in list(model.graph):
        found = find_attention(node)
        family = family_for(context.device, found) if found is not None and found.laid_out else None
        if found is not None and family is not None and not wish_for(found.taken, context.wishes):
            for call, taken in zip(replace_attention(model, found, family, context.kinds), (found.of_shares, found.of_values), strict=True):
                note_sources(call, [node.name or "" for node in reversed(taken)])


def _fuse_rotary(model: ir.Model, context: Context) -> None:
    """Rotary positions that are laid out become calls where the machine computes them and the user wants none of their nodes elsewhere."""
    if not takes_rotary(context.device):
        return
    for node in reversed(list(model.graph)):
        found = find_rotary(node) if node.graph is not None else None
        turned = on_sequence(found) if found is not None else None
        if turned is not None and not wish_for(turned.taken, context.wishes):
            note_sources(replace_rotary(model, turned, context.kinds), [node.name or "" for node in reversed(turned.taken)])


def _templates(context: Context) -> tuple[Template, ...]:
    return context.templates or default_templates(context.kinds)


def _fuse(model: ir.Model, node: ir.Node, templates: list[Template], context: Context) -> None:
    """The first template that fits; the reasons of all that nearly did, of operations that the machine has, where none does."""
    reasons: dict[str, Reason] = {}
    for template in templates:
        match = find(template, node)
        if isinstance(match, Match):
            match = _unwanted(match, context) or match
        found = bind(match) if isinstance(match, Match) else match
        if isinstance(found, Fused) and any(_is_known(part) for part in found.operands[: len(context.kinds[template.computes].data)]):
            found = Why.CONSTANT_RESULT()
        if isinstance(match, Match) and any(_is_empty(value) for taken in match.taken for value in (*taken.inputs, *taken.outputs)):
            reasons = {"": Why.NO_ELEMENTS()}
            break
        if isinstance(match, Match) and isinstance(found, Fused):
            if _lacks(context, template):
                reasons = {"": Why.NO_KERNEL(operation=template.computes)}
                break
            call = _replace(model, node, match, found, context.kinds[template.computes])
            if (wish := wish_for(match.taken, context.wishes)) and wish.machine:
                call.metadata_props[ONLY] = wish.machine
            return
        if isinstance(found, Reason) and not _lacks(context, template):
            reasons[found.key] = found
    note_reasons(node, *(reasons.values() or (unknown(node, context.device),)))


def _unwanted(match: Match, context: Context) -> Reason | None:
    """Why the user does not want the machine to have some of these nodes; None where that is not so."""
    wish = wish_for(match.taken, context.wishes)
    if wish is None or (wish.machine and (context.device is None or context.device.name == wish.machine)):
        return None
    return wish.reason


def _is_known(part: ir.Value | New) -> bool:
    return isinstance(part, New) or part.is_initializer()


def _is_empty(value: ir.Value | None) -> bool:
    """Whether a computed tensor has no elements: an axis of size 0, as empty slices make. A constant without elements is an input left out."""
    return value is not None and value.const_value is None and 0 in (known_shape(value) or ())


def _lacks(context: Context, template: Template) -> bool:
    """Whether the machine has no kernel for an operation, nor for another that computes the same."""
    return context.device is not None and not context.device.may_compute(template.computes)


def _replace(model: ir.Model, anchor: ir.Node, match: Match, fused: Fused, kind: OperationKind) -> ir.Node:
    graph, output = model.graph, anchor.outputs[0]
    main = next((node for role, node in match.nodes.items() if role != "activation"), anchor)
    operands = [add_constant(graph, part.name, part.array) if isinstance(part, New) else part for part in fused.operands]
    call = fused_call(model, kind, fused.variant, operands, fused.attributes, main.name or output.name or "")
    note_sources(call, [node.name or "" for node in reversed(match.taken)])
    if "activation" in match.nodes and (inner := match.nodes["activation"].inputs[0]) is not None:
        call.metadata_props[INNER] = inner.name or ""
    for node in match.taken:
        note_refusals(call, refusals_of(node))
    substitute(graph, match.taken, [call])
    return call
