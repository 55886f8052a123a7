"""Finds a template in the graph by an anchored walk backwards from one node."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir

from toolchain.graph.rewrite import constant, is_float, is_operator, known_shape, shape_of, single_use
from toolchain.passes.templates import Pattern, Template, Tensor


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


def find(template: Template, anchor: ir.Node) -> Match | str:
    """The match whose last node is `anchor`; else why the template nearly fits, or an empty string where it does not at all."""
    found = _match(template.pattern, anchor.outputs[0], Match(template), True)
    if found is None or anchor not in found.taken:
        return ""
    reason = _unfit(found)
    if reason:
        return reason
    broken = next(((word, argument) for word, argument in template.where if not _holds(word, argument, found)), None)
    return found if broken is None else _breach(*broken, found)


def _unfit(match: Match) -> str:
    """Why the tensors of a match are none that a machine could compute with."""
    outputs = [node.outputs[0] for node in match.taken]
    data = [value for values in match.tensors.values() for value in values if not value.is_initializer()]
    for value in (*data, *outputs):
        if value.dtype is None:
            return f"the type of '{value.name}' is not known"
        if not is_float(value):
            return f"'{value.name}' holds {value.dtype.name.lower()}"
        if known_shape(value) is None:
            return f"the shape of '{value.name}' depends on the data"
    return ""


def _match(pattern: Pattern, value: ir.Value, match: Match, root: bool) -> Match | None:
    for alternative in pattern.alternatives:
        if found := _match(alternative, value, match.copy(), root):
            return found
    node = value.producer()
    fits = node is not None and ("any" in pattern.operators or is_operator(node, *pattern.operators))
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
            if value is not None and part.name != "*":
                found.tensors[part.name] = [value]
        else:
            found = _match(part, value, found, False) if value is not None else None
            if found is None:
                return None
    return found if len(values) <= len(pattern.inputs) else None


def _holds(word: str, argument: Mapping[str, Any], match: Match) -> bool:
    values = [value for name in argument for value in match.tensors.get(name, ())]
    match word:
        case "constant":
            return all(constant(value) is not None for value in values)
        case "computed":
            return all(not value.is_initializer() for value in values)
        case "same_shape":
            return len({shape_of(value) for value in values}) == 1
        case "rank":
            return all(len(shape_of(value)) == argument[name] for name in argument for value in match.tensors.get(name, ()))
        case _:
            return all(_attribute(match, name) == wanted for name, wanted in argument.items())


def _breach(word: str, argument: Mapping[str, Any], match: Match) -> str:
    """Why a constraint does not hold, in a reader's words; empty where another template is for such a node."""
    bound = {name: match.tensors.get(name, []) for name in argument}
    match word:
        case "constant":
            name = next(value.name for values in bound.values() for value in values if constant(value) is None)
            return f"'{name}' is computed when the model runs, and has to be a constant"
        case "computed":
            return ""
        case "same_shape":
            one, other = (values[0] for values in list(bound.values())[:2])
            return f"'{one.name}' and '{other.name}' have different shapes"
        case "rank":
            value, wanted = next((v, argument[n]) for n, values in bound.items() for v in values if len(shape_of(v)) != argument[n])
            return f"'{value.name}' has {len(shape_of(value))} axes, not {wanted}"
        case _:
            name, wanted = next((name, wanted) for name, wanted in argument.items() if _attribute(match, name) != wanted)
            return f"its {name.rpartition('.')[2]} is {_attribute(match, name)}, not {wanted}"


def _attribute(match: Match, name: str) -> Any:
    role, _, attribute = name.partition(".")
    found = match.nodes[role].attributes.get(attribute) if role in match.nodes else None
    return None if found is None else found.value
