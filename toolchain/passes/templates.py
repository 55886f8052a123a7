"""Fusion templates read from YAML: patterns of operators, and the operation that each counts as; and the match of a template in a graph."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial

import onnx
import onnx_ir as ir

from toolchain.graph.operators import known_operators
from toolchain.operations.kind import OperationKind
from toolchain.operations.library import Kinds, builtin_kinds, kinds_of
from toolchain.spec.errors import Source, fail, nearest
from toolchain.spec.files import PACKAGE
from toolchain.spec.model import Machine, Outline
from toolchain.spec.schema import validate
from toolchain.spec.yaml_nodes import Node, gather, parse_yaml

ANY = "any"
"""Stands for every operator."""


@dataclass(frozen=True)
class Tensor:
    """Binds one tensor to a name, or the rest of them (`many`); `*` binds nothing."""

    name: str
    optional: bool = False
    many: bool = False


@dataclass(frozen=True)
class Pattern:
    """operators: alternatives; `any` matches all. alternatives: patterns tried in turn in place of this one."""

    operators: tuple[str, ...] = ()
    role: str = ""
    optional: bool = False
    commutes: bool = False
    inputs: tuple["Pattern | Tensor", ...] = ()
    alternatives: tuple["Pattern", ...] = ()

    @property
    def size(self) -> int:
        """Nodes that it can take."""
        inner = sum(part.size for part in self.inputs if isinstance(part, Pattern))
        return bool(self.operators) + inner + max((part.size for part in self.alternatives), default=0)


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


SCHEMA = PACKAGE / "schemas" / "fusion.schema.json"


@dataclass(frozen=True)
class Template:
    """where: constraints as a word and its argument for each name. operands: the operation's, by the names that the pattern binds.

    reader: the one of passes.bindings that reads operators of an irregular form; without one, attributes says which attribute of which node becomes
    which of the operation's, and vectors names constants that hold one number for each channel.
    """

    name: str
    computes: str
    pattern: Pattern
    where: tuple[tuple[str, Mapping[str, object]], ...]
    operands: tuple[str, ...] = ()
    reader: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict[str, str])
    vectors: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Nodes that the pattern can take."""
        return self.pattern.size


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


def default_templates(kinds: Kinds | None = None) -> tuple[Template, ...]:
    """Templates that operations bring, the largest patterns first."""
    return _default(kinds) if kinds is not None else _builtin()


def templates_for(machine: Machine) -> tuple[Template, ...]:
    """A machine's own, or those that operations bring. Raises as `read_templates`."""
    kinds = kinds_of(machine)
    return templates_of(machine.fusion, kinds) if machine.fusion else default_templates(kinds)


@cache
def _builtin() -> tuple[Template, ...]:
    return _default(builtin_kinds())


def _default(kinds: Kinds) -> tuple[Template, ...]:
    found = [template for kind in kinds.values() for template in _brought(kind, kinds)]
    return tuple(sorted(found, key=lambda template: -template.size))


def _brought(kind: OperationKind, kinds: Kinds) -> tuple[Template, ...]:
    """The templates of an operation's own description."""
    if not kind.binds:
        return ()
    name = Node(kind.name, kind.binds[0].span, ())
    nodes = [Node({"computes": name, **dict(node.items())}, node.span, node.path, node.style, node.key_span) for node in kind.binds]
    if kind.name not in builtin_kinds():
        validate(Node({"fusion": Node(nodes, nodes[0].span, ())}, nodes[0].span, ()), SCHEMA)
    return tuple(gather(partial(_template, kinds), nodes))


def read_templates(source: Source, kinds: Kinds | None = None) -> tuple[Template, ...]:
    """Raises UserError E0101 to E0116 (YAML, schema), E0107 (unknown kind or name), E0915 (a pattern that can never match)."""
    root = parse_yaml(source)
    validate(root, SCHEMA)
    return tuple(gather(partial(_template, kinds or builtin_kinds()), root.entries("fusion")))


def templates_of(section: Outline, kinds: Kinds | None = None) -> tuple[Template, ...]:
    """Templates of a machine's section `fusion`. Raises as `read_templates`."""
    root = Node({"fusion": section.node}, section.node.span, ())
    validate(root, SCHEMA)
    return tuple(gather(partial(_template, kinds or builtin_kinds()), section.node.children()))


def _places(node: Node, pattern: Pattern) -> dict[str, Node]:
    """Attributes that a template compares or takes; a number may also come from a constant, by the name of a tensor."""
    conditions = [constraint.value["attribute"] for constraint in node.entries("where") if constraint.get("attribute")]
    compared = {name: member for each in conditions for name, member in each.items()}
    taken = {str(value.value): value for _, value in node.members("attributes")}
    return compared | {place: value for place, value in taken.items() if "." in place or place not in names_of(pattern)}


def _template(kinds: Kinds, node: Node) -> Template:
    computes, pattern = node.value["computes"], node.value["pattern"]
    if computes.value not in kinds:
        hint = nearest(computes.value, kinds) or f"known: {', '.join(kinds)}"
        raise fail("E0107", f"unknown kind of operation '{computes.value}'", computes.span, hint)
    kind = kinds[computes.value]
    parsed = _pattern(pattern)
    if parsed.optional and not parsed.alternatives and not any(isinstance(part, Pattern) for part in parsed.inputs[:1]):
        raise fail("E0915", "every node of the pattern is optional, so it would match anything", pattern.where())
    check_pattern(pattern, parsed)
    known = names_of(parsed)
    where = tuple((word, _named(value, known)) for constraint in node.entries("where") for word, value in constraint.items())
    reader = node.text("reader") or next((bind.text("reader") for bind in kind.binds), "")
    attributes = {name: str(value.value) for name, value in node.members("attributes")}
    operands = tuple(each.name for each in kind.operands)
    if not reader:
        _check_plain(node, kind, known, attributes)
    check_attributes(_places(node, parsed), parsed)
    vectors = tuple(str(member.value) for member in node.entries("vectors"))
    return Template(node.text("name"), kind.name, parsed, where, operands, reader, attributes, vectors)


def _check_plain(node: Node, kind: OperationKind, known: Mapping[str, None], attributes: Mapping[str, str]) -> None:
    """Raises UserError E0107 where a template without a reader leaves an operand or an attribute open."""
    lacking = next((each.name for each in kind.operands if each.name not in known), None)
    if lacking is not None:
        raise fail("E0107", f"the pattern binds no '{lacking}', which '{kind.name}' reads", node.value["pattern"].where())
    missing = next((each.name for each in kind.attributes if each.name not in attributes), None)
    if missing is not None:
        raise fail(
            "E0107", f"the template says of no attribute '{missing}', which '{kind.name}' has", node.where(), "attributes: {NAME: ROLE.ATTRIBUTE}"
        )
    wrong = next((place for place in attributes.values() if place.partition(".")[0] not in known), None)
    if wrong is not None:
        raise fail("E0107", f"the pattern binds no node '{wrong.partition('.')[0]}'", node.where(), f"bound: {', '.join(known)}")


def _named(argument: Node, known: Mapping[str, None]) -> Mapping[str, object]:
    """The argument of a constraint for each name that the pattern binds; True where it has none."""
    if isinstance(argument.value, dict):
        found = {name: (member.plain(), member.where()) for name, member in argument.items()}
    else:
        found = {str(member.value): (True, member.span) for member in argument.children() or [argument]}
    for name, (_, span) in found.items():
        if name.split(".")[0] not in known:
            raise fail("E0107", f"the pattern binds no '{name}'", span, nearest(name, known) or f"bound: {', '.join(known)}")
    return {name: value for name, (value, _) in found.items()}


def names_of(pattern: Pattern | Tensor) -> dict[str, None]:
    """Every name that a pattern binds: nodes and tensors."""
    if isinstance(pattern, Tensor):
        return {pattern.name: None}
    own = {pattern.role: None} if pattern.role else {}
    return own | {name: None for part in (*pattern.inputs, *pattern.alternatives) for name in names_of(part)}


def _pattern(node: Node) -> Pattern:
    operators, alternatives = node.get("op"), node.entries("any_of")
    if (operators is None) == (not alternatives):
        raise fail("E0915", "a pattern has either 'op' or 'any_of'", node.where())
    words = () if operators is None else tuple(part.value for part in operators.children()) or (str(operators.value),)
    return Pattern(
        words,
        node.text("as"),
        node.flag("optional"),
        node.flag("commutes"),
        tuple(_tensor(part) if isinstance(part.value, str) else _pattern(part) for part in node.entries("inputs")),
        tuple(_pattern(part) for part in alternatives),
    )


def _tensor(node: Node) -> Tensor:
    text = str(node.value)
    if text.endswith("?"):
        return Tensor(text[:-1], optional=True)
    return Tensor(text[:-1], many=True) if text.endswith("*") and text != "*" else Tensor(text)
