"""Fusion templates read from YAML: what to look for, and as which operation it counts."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolchain.graph.functions import KINDS
from toolchain.spec.errors import Source, fail
from toolchain.spec.findings import gather
from toolchain.spec.model import Outline
from toolchain.spec.resources import PACKAGE
from toolchain.spec.schema import validate
from toolchain.spec.suggest import nearest
from toolchain.spec.yaml_nodes import Node, parse_yaml

SCHEMA = PACKAGE / "schemas" / "fusion.schema.json"
DEFAULT = PACKAGE / "passes" / "fusion.yaml"


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


@dataclass(frozen=True)
class Template:
    """where: constraints as a word and what it says of each name."""

    name: str
    computes: str
    pattern: Pattern
    where: tuple[tuple[str, Mapping[str, Any]], ...]


def default_templates() -> tuple[Template, ...]:
    """Those that come with the toolchain."""
    return read_templates(Source(str(DEFAULT), Path(DEFAULT).read_text()))


def read_templates(source: Source) -> tuple[Template, ...]:
    """Raises UserError E0101 to E0116 (YAML, schema), E0107 (unknown kind or name), E0915 (a pattern that can never match)."""
    root = parse_yaml(source)
    validate(root, SCHEMA)
    return tuple(gather(_template, root.entries("fusion")))


def templates_of(section: Outline | None) -> tuple[Template, ...]:
    """Those of a machine's section `fusion`, the default ones where it has none. Raises as `read_templates`."""
    if section is None:
        return default_templates()
    root = Node({"fusion": section.node}, section.node.span, ())
    validate(root, SCHEMA)
    return tuple(gather(_template, section.node.children()))


def _template(node: Node) -> Template:
    computes, pattern = node.value["computes"], node.value["pattern"]
    if computes.value not in KINDS:
        raise fail(
            "E0107", f"unknown kind of operation '{computes.value}'", computes.span, nearest(computes.value, KINDS) or f"known: {', '.join(KINDS)}"
        )
    parsed = _pattern(pattern)
    if parsed.optional and not parsed.alternatives and not any(isinstance(part, Pattern) for part in parsed.inputs[:1]):
        raise fail("E0915", "every node of the pattern is optional, so it would match anything", pattern.where())
    known = names_of(parsed)
    where = tuple((word, _named(value, known)) for constraint in node.entries("where") for word, value in constraint.items())
    return Template(node.text("name"), str(computes.value), parsed, where)


def _named(argument: Node, known: Mapping[str, None]) -> Mapping[str, Any]:
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
