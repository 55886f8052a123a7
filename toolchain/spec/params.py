"""Parameters: defaults, a named configuration, overrides from the command line, derived values, checks."""

from collections.abc import Mapping

from toolchain.spec.context import Context
from toolchain.spec.errors import fail
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import parse_expr
from toolchain.spec.suggest import nearest
from toolchain.spec.yaml_nodes import Node


def resolve_params(root: Node, config: str, overrides: Mapping[str, str]) -> Context:
    """Raises UserError E0104 for an unknown configuration or parameter, E0105 out of range, E0106 for a failed check."""
    params = dict(root.value["params"].items()) if root.get("params") else {}
    choices = {name: tuple(c.value for c in node.value["choices"].value) for name, node in params.items() if node.get("choices")}
    given = _config(root, config, params)
    names: dict[str, int] = {}
    for name, node in params.items():
        source = given.get(name, node.value["value"])
        names[name] = _value(name, node, source, overrides.get(name), choices, names)
    for name in overrides:
        if name not in params:
            raise fail("E0104", f"unknown parameter '{name}'", hint=nearest(name, params))
    context = Context(root, config, names, choices)
    for name, node in root.value["derive"].items() if root.get("derive") else ():
        names[name] = context.number(node)
    for check in root.value["checks"].value if root.get("checks") else ():
        if not context.number(check.value["that"]):
            raise fail("E0106", check.value["message"].value, check.value["that"].span)
    return context


def _config(root: Node, config: str, params: Mapping[str, Node]) -> dict[str, Node]:
    if not config:
        return {}
    configs = root.get("configs")
    known = dict(configs.items()) if configs else {}
    if config not in known:
        raise fail("E0104", f"unknown configuration '{config}'", hint=nearest(config, known) or f"known: {', '.join(known) or 'none'}")
    given = dict(known[config].items()) if isinstance(known[config].value, dict) else {}
    for name, node in given.items():
        if name not in params:
            raise fail("E0104", f"unknown parameter '{name}'", node.key_span, nearest(name, params))
    return given


def _value(name: str, node: Node, source: Node, override: str | None, choices: Mapping[str, tuple[str, ...]], names: Mapping[str, int]) -> int:
    text = override if override is not None else str(source.value)
    span = None if override is not None else source.span
    if name in choices:
        if text not in choices[name]:
            raise fail("E0105", f"{name} is one of {', '.join(choices[name])}, not '{text}'", span, nearest(text, choices[name]))
        return choices[name].index(text)
    value = constant(parse_expr(text, lambda line, column: span or node.span), names)
    low, high = (constant(parse_expr(str(n.value), n.locate), names) for n in node.value["range"].value)
    if not low <= value <= high:
        raise fail("E0105", f"{name} = {value} is outside {low}..{high}", span)
    return value
