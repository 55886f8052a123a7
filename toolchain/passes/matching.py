"""Finds a template in the graph by an anchored walk backwards from one node."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir

from toolchain.graph.operators import attribute_default
from toolchain.graph.rewrite import constant, is_float, is_operator, known_shape, shape_of, single_use
from toolchain.passes.templates import ANY, Pattern, Template, Tensor
from toolchain.spec.arrays import Array
from toolchain.spec.reason import Reason
from toolchain.spec.reasons import Why

NEAR = 1e-6
"""Relative: a number that an exporter rounded to float32, and perhaps computed there."""


@dataclass(frozen=True)
class Match:
    """nodes: by role, the anchor first. tensors: by name; a name that stands for many has a list."""

    template: Template
    nodes: dict[str, ir.Node] = field(default_factory=dict[str, ir.Node])
    tensors: dict[str, list[ir.Value]] = field(default_factory=dict[str, list[ir.Value]])
    taken: list[ir.Node] = field(default_factory=list[ir.Node])

    def tensor(self, name: str) -> ir.Value | None:
        """The tensor of a name, or None where it was left out."""
        return next(iter(self.tensors.get(name, ())), None)

    def copy(self) -> "Match":
        return Match(self.template, dict(self.nodes), dict(self.tensors), list(self.taken))


def find(template: Template, anchor: ir.Node) -> Match | Reason | None:
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
        found = [(name, _attribute(match, name), wanted) for name, wanted in argument.items()]
        wrong = (Why.ATTRIBUTE(attribute=name, value=str(value), wanted=str(wanted)) for name, value, wanted in found if value != wanted)
        return next(wrong, None)
    named = [(value, argument[name]) for name in argument for value in match.tensors.get(name, ())]
    return next((reason for value, wanted in named if (reason := _misfit(word, value, wanted))), None)


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


def _attribute(match: Match, name: str) -> object:
    """The value of ROLE.ATTRIBUTE; ONNX's default where the node leaves it out, None where ONNX has none or the node was not matched."""
    role, _, attribute = name.partition(".")
    if role not in match.nodes:
        return None
    node = match.nodes[role]
    found = node.attributes.get(attribute)
    return attribute_default(node.op_type, attribute) if found is None else found.value
