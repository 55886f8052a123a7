"""Makes calls of fused operations out of the operators that templates match, found by an anchored walk backwards from one node; the rest is left,
each node with its reason."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import onnx_ir as ir

from toolchain.graph.integers.calls import fused_call, note_reasons, note_refusals, refusals_of
from toolchain.graph.integers.functions import FUSED, is_integer
from toolchain.graph.nodes import REASON
from toolchain.graph.rewrite import (
    add_constant,
    constant,
    drop_unused_constants,
    is_float,
    is_operator,
    known_shape,
    shape_of,
    single_use,
    substitute,
)
from toolchain.operations.kind import OperationKind
from toolchain.passes.attention import FAMILIES as ATTENTIONS
from toolchain.passes.attention import family_for, find_attention, replace_attention
from toolchain.passes.bindings import Fused, New, attribute_of, bind
from toolchain.passes.context import Context, Device, Pass, wish_for
from toolchain.passes.lay_out_rotary import OPERATION as ROTARY
from toolchain.passes.lay_out_rotary import on_sequence, replace_rotary, takes_rotary
from toolchain.passes.rotary import find_rotary
from toolchain.passes.templates import ANY, Match, Pattern, Template, Tensor, default_templates
from toolchain.spec.arrays import Array
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
        match = find_match(template, node)
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


NEAR = 1e-6
"""Relative: a number that an exporter rounded to float32, and perhaps computed there."""


def find_match(template: Template, anchor: ir.Node) -> Match | Reason | None:
    """The match whose last node is `anchor`; else the condition that fails, or None where the operators are others."""
    found = _match(template.pattern, anchor.outputs[0], Match(template), True)
    if found is None or anchor not in found.taken:
        return None
    return _unfit(found, anchor) or next((reason for word, argument in template.where if (reason := _fails(word, argument, found))), found)


def _unfit(match: Match, anchor: ir.Node) -> Reason | None:
    """Why the tensors of a match are none that a machine could compute with. A comparison inside it may give truths."""
    outputs = [node.outputs[0] for node in match.taken]
    data = [value for values in match.tensors.values() for value in values if not value.is_initializer()]
    for value in (*data, *outputs):
        if value.dtype is None:
            return Why.NO_TYPE(tensor=value.name or "")
        inner = value.producer() in match.taken and value is not anchor.outputs[0]
        if not is_float(value) and not (inner and value.dtype == ir.DataType.BOOL):
            return Why.NOT_FLOAT(tensor=value.name or "", dtype=value.dtype.name.lower())
        if known_shape(value) is None:
            return Why.DATA_SHAPE(tensor=value.name or "")
    return None


def _match(pattern: Pattern, value: ir.Value, match: Match, root: bool) -> Match | None:
    for alternative in pattern.alternatives:
        if found := _match(alternative, value, match.copy(), root):
            return found
    node = value.producer()
    fits = node is not None and (ANY in pattern.operators or is_operator(node, *pattern.operators))
    if node is not None and fits and (root or single_use(value)) and value is node.outputs[0] and (found := _node(pattern, node, match.copy())):
        return found
    if pattern.optional and pattern.inputs and isinstance(pattern.inputs[0], Pattern):
        return _match(pattern.inputs[0], value, match, root)
    return None


def _node(pattern: Pattern, node: ir.Node, match: Match) -> Match | None:
    match.taken.append(node)
    if pattern.role:
        match.nodes[pattern.role] = node
    orders = [list(node.inputs)] + ([list(reversed(node.inputs))] if pattern.commutes else [])
    return next((found for order in orders if (found := _inputs(pattern, order, match.copy()))), None)


def _inputs(pattern: Pattern, values: Sequence[ir.Value | None], match: Match) -> Match | None:
    found: Match | None = match
    for number, part in enumerate(pattern.inputs):
        if isinstance(part, Tensor) and part.many:
            match.tensors[part.name] = [value for value in values[number:] if value is not None]
            return found
        value = values[number] if number < len(values) else None
        if isinstance(part, Tensor):
            if value is None and not part.optional:
                return None
            if value is not None and part.name != "*" and found.tensors.setdefault(part.name, [value]) != [value]:
                return None  # a name stands for one tensor
        else:
            found = _match(part, value, found, False) if value is not None else None
            if found is None:
                return None
    return found if len(values) <= len(pattern.inputs) else None


def _fails(word: str, argument: Mapping[str, object], match: Match) -> Reason | None:
    """Why a condition of a template does not hold; None where it does."""
    if word == "same_shape":
        return Why.SHAPES_DIFFER() if len({shape_of(value) for name in argument for value in match.tensors.get(name, ())}) > 1 else None
    if word == "attribute":
        found = [(name, attribute_of(match, name), wanted) for name, wanted in argument.items()]
        wrong = (
            Why.ATTRIBUTE(attribute=name, value=str(value), wanted=str(wanted))
            for name, value, wanted in found
            if not _is_value(match, name, value, wanted)
        )
        return next(wrong, None)
    named = [(value, argument[name]) for name in argument for value in match.tensors.get(name, ())]
    return next((reason for value, wanted in named if (reason := _misfit(word, value, wanted))), None)


def _is_value(match: Match, name: str, value: object, wanted: object) -> bool:
    """Whether an attribute ROLE.ATTRIBUTE has a value; an axis may be counted from either end of the node's first input."""
    role, _, attribute = name.partition(".")
    if value == wanted or attribute != "axis" or not isinstance(value, int) or not isinstance(wanted, int):
        return value == wanted
    rank = len(known_shape(match.nodes[role].inputs[0]) or ())
    return -rank <= value < rank and value % rank == wanted % rank


def _misfit(word: str, value: ir.Value, wanted: Any) -> Reason | None:
    """Why a condition does not hold for one tensor; None where it does."""
    name = value.name or ""
    match word:
        case "constant":
            return Why.NOT_CONSTANT(tensor=name) if constant(value) is None else None
        case "value":
            return (
                None if (array := constant(value)) is not None and is_number(array, float(wanted)) else Why.OTHER_NUMBER(tensor=name, wanted=wanted)
            )
        case "computed":
            return Why.IS_CONSTANT(tensor=name) if value.is_initializer() else None
        case "extents":
            return None if _fits(shape_of(value), wanted) else Why.WRONG_SHAPE(tensor=name, shape=shape_of(value))
        case _:
            rank = len(shape_of(value))
            wrong = Why.NO_ROWS(tensor=name) if (rank, wanted) == (3, 2) else Why.WRONG_RANK(tensor=name, rank=rank, wanted=wanted)
            return None if rank == wanted else wrong


def is_number(array: Array, wanted: float) -> bool:
    """Whether a constant is this one number, as float32 or float64 round it."""
    return array.size == 1 and math.isclose(float(array.ravel()[0]), wanted, rel_tol=NEAR)


def _fits(shape: Sequence[int], wanted: Sequence[int]) -> bool:
    """Whether a shape is the wanted one, in which -1 stands for any extent."""
    return len(shape) == len(wanted) and all(extent in (-1, size) for size, extent in zip(shape, wanted, strict=True))
