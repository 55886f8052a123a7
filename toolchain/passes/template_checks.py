"""Patterns that can never match: operators that ONNX does not have, numbers of inputs and attributes that none of them has."""

from collections.abc import Iterator, Mapping

import onnx

from toolchain.graph.operators.schemas import known_operators
from toolchain.passes.pattern import ANY, Pattern, Tensor
from toolchain.spec.errors import fail
from toolchain.spec.suggest import nearest
from toolchain.spec.yaml_nodes import Node


def check_pattern(node: Node, pattern: Pattern) -> None:
    """node: of the pattern, or of a part. Raises UserError E0915 for an operator that ONNX does not have, and for inputs that none of a part's
    operators takes."""
    for word in pattern.operators:
        if word != ANY and not onnx.defs.has(word):
            hint = nearest(word, known_operators())
            raise fail("E0915", f"ONNX has no operator '{word}', so the pattern never matches", node.value["op"].where(), hint)
    if pattern.operators and ANY not in pattern.operators and not any(_takes(word, pattern) for word in pattern.operators):
        counts = ", ".join(f"{word} {_counted(onnx.defs.get_schema(word))}" for word in pattern.operators)
        text = f"the pattern never matches: it has {len(pattern.inputs)} input{'s' * (len(pattern.inputs) != 1)}, and {counts}"
        raise fail("E0915", text, (node.get("inputs") or node).where())
    parts = [*zip(node.entries("inputs"), pattern.inputs, strict=True), *zip(node.entries("any_of"), pattern.alternatives, strict=True)]
    for inner, part in parts:
        if isinstance(part, Pattern):
            check_pattern(inner, part)


def _takes(word: str, pattern: Pattern) -> bool:
    """Whether nodes of an operator can have the pattern's inputs."""
    schema, inputs = onnx.defs.get_schema(word), pattern.inputs
    needed = sum(not (isinstance(part, Tensor) and (part.optional or part.many)) for part in inputs)
    many = any(isinstance(part, Tensor) and part.many for part in inputs)
    return needed <= schema.max_input and (many or schema.min_input <= len(inputs))


def _counted(schema: onnx.defs.OpSchema) -> str:
    least, most = schema.min_input, schema.max_input
    return f"takes {least}" if least == most else f"takes at least {least}" if most > 99 else f"takes {least} to {most}"


def check_attributes(places: Mapping[str, Node], pattern: Pattern) -> None:
    """places: where each ROLE.ATTRIBUTE stands. Raises UserError E0107 for one that no operator of the node has."""
    for place, node in places.items():
        role, dot, attribute = place.partition(".")
        operators = list(_operators(pattern, role))
        if not dot or not operators:
            raise fail("E0107", f"'{place}' is no attribute of a node that the pattern binds", node.where(), "ROLE.ATTRIBUTE")
        if ANY in operators:
            continue
        known = sorted({name for word in operators for name in onnx.defs.get_schema(word).attributes})
        if attribute not in known:
            told = f"{' or '.join(operators)} has no attribute '{attribute}'"
            raise fail("E0107", told, node.where(), nearest(attribute, known) or f"known: {', '.join(known)}")


def _operators(pattern: Pattern, role: str) -> Iterator[str]:
    """Operators that a role can stand for."""
    if pattern.role == role:
        yield from pattern.operators
    for part in (*pattern.inputs, *pattern.alternatives):
        if isinstance(part, Pattern):
            yield from _operators(part, role)
