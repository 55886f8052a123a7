"""Parameters: defaults, a named configuration, overrides from the command line, derived values, checks."""

import keyword
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from toolchain.spec.context import Context
from toolchain.spec.errors import Source, Span, fail, nearest
from toolchain.spec.evaluate import FUNCTIONS, constant
from toolchain.spec.expr import parse_expr
from toolchain.spec.model import Parameter
from toolchain.spec.yaml_nodes import Findings, Node


@dataclass(frozen=True)
class _Given:
    """A parameter's value as text, wherever it was written."""

    text: str
    span: Span
    node: Node | None = None

    def locate(self, line: int, column: int) -> Span:
        if self.node:
            return self.node.locate(line, column)
        return Span(self.span.source, line, self.span.column + column)


def resolve_params(root: Node, config: str, overrides: Mapping[str, str]) -> Context:
    """Values of all parameters and derived names.

    Raises UserError E0104 for an unknown configuration or parameter, E0105 out of range, E0106 for a failed check,
    E0145 for a name that means something else already.
    """
    params = dict(root.members("params"))
    _check_names([*root.members("params"), *root.members("derive")])
    choices = {name: tuple(str(c.value) for c in node.entries("choices")) for name, node in params.items() if node.get("choices")}
    given = {**_configured(root, config, params), **_overrides(overrides, params)}
    names: dict[str, int] = {}
    context = Context(root, config, names, choices)
    findings = Findings()
    for name, node in params.items():
        value = given.get(name) or _given(node.value["value"])
        names[name] = findings.attempt(0, lambda name=name, node=node, value=value: _value(context, name, node, value))
    findings.settle()
    for name, node in root.members("derive"):
        names[name] = context.number(node)
    for check in root.entries("checks"):
        if not context.number(check.value["that"]):
            raise fail("E0106", check.text("message"), check.value["that"].span)
    return context


def parameter_notes(root: Node, context: Context) -> dict[str, Parameter]:
    """By the name of each parameter, its range or choices, and its description."""
    found: dict[str, Parameter] = {}
    for name, node in root.members("params"):
        low, *high = (context.number(each) for each in node.entries("range")) if node.get("range") else (0,)
        found[name] = Parameter(node.text("doc"), (low, high[0]) if high else None, context.choices.get(name, ()), node.key_span)
    return found


def assumed_params(root: Node) -> dict[str, str]:
    """By the name of each parameter that is marked so, why its value is assumed to be right."""
    marked = {name: node.get("assumed") for name, node in root.members("params")}
    return {
        name: "; ".join(str(each.value) for each in mark.children()) if isinstance(mark.value, list) else str(mark.value)
        for name, mark in marked.items()
        if mark
    }


def _check_names(members: Iterable[tuple[str, Node]]) -> None:
    seen: set[str] = set()
    for name, node in members:
        if name in seen or name in FUNCTIONS or keyword.iskeyword(name):
            raise fail("E0145", f"the name '{name}' is taken", node.where(), "parameters and derived names share one set of names")
        seen.add(name)


def _given(node: Node) -> _Given:
    return _Given(str(node.value), node.span, node)


def _configured(root: Node, config: str, params: Mapping[str, Node]) -> dict[str, _Given]:
    """The values of one named configuration; the names in all others are checked too."""
    known = dict(root.members("configs"))
    for item in known.values():
        for name, node in item.items() if item.value else ():
            if name not in params:
                raise fail("E0104", f"unknown parameter '{name}'", node.key_span, nearest(name, params))
    if not config:
        return {}
    if config not in known:
        raise fail("E0104", f"unknown configuration '{config}'", hint=nearest(config, known) or f"known: {', '.join(known) or 'none'}")
    return {name: _given(node) for name, node in (known[config].items() if known[config].value else ())}


def _overrides(overrides: Mapping[str, str], params: Mapping[str, Node]) -> dict[str, _Given]:
    for name in overrides:
        if name not in params:
            raise fail("E0104", f"unknown parameter '{name}'", hint=nearest(name, params) or f"known: {', '.join(params) or 'none'}")
    return {name: _Given(text, Span(Source("parameters", f"{name}={text}"), 1, len(name) + 2)) for name, text in overrides.items()}


def _value(context: Context, name: str, node: Node, given: _Given) -> int:
    choices = context.choices.get(name)
    if choices:
        if given.text not in choices:
            raise fail("E0105", f"{name} is one of {', '.join(choices)}, not '{given.text}'", given.span, nearest(given.text, choices))
        return choices.index(given.text)
    value = constant(parse_expr(given.text, given.locate), context.names, context.choices)
    low, high = (context.number(n) for n in node.entries("range"))
    if not low <= value <= high:
        raise fail("E0105", f"{name} = {value} is outside {low}..{high}", given.span)
    return value
