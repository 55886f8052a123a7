"""Sections numerics, program and host."""

from toolchain.spec.context import Context
from toolchain.spec.errors import fail
from toolchain.spec.findings import gather
from toolchain.spec.model import Host, ProgramRules, Quantity, Rule
from toolchain.spec.types import parse_scalar
from toolchain.spec.yaml_nodes import Node


def rules(context: Context) -> tuple[Rule, ...]:
    """Raises UserError E0105 for saturation limits outside the type."""
    return tuple(gather(lambda item: _rule(context, *item), context.root.members("numerics")))


def _rule(context: Context, name: str, node: Node) -> Rule:
    kind = node.get("type")
    scalar = parse_scalar(kind.value, context.names, kind.locate) if kind else None
    low, high = (context.number(n) if (n := node.get(key)) else None for key in ("low", "high"))
    for key, limit in (("low", low), ("high", high)):
        if scalar and limit is not None and not scalar.low <= limit <= scalar.high:
            raise fail("E0105", f"{key} = {limit} is outside {scalar}'s {scalar.low}..{scalar.high}", node.value[key].span)
    if low is not None and high is not None and low > high:
        raise fail("E0105", f"low = {low} is above high = {high}", node.value["low"].span)
    return Rule(name, node.text("rounding"), scalar, node.text("overflow"), low, high, node.text("source"), node.flag("assumed"), node.text("doc"))


def program(root: Node) -> ProgramRules:
    node = root.value["program"]
    return ProgramRules(node.text("ends"), node.flag("last"), node.text("container", "raw"))


def host(context: Context) -> Host | None:
    node = context.root.get("host")
    if node is None:
        return None
    kinds = {name: quantity(n) for name, n in node.members("gmac_per_s")}
    return Host(kinds, *(quantity(node.value[key]) for key in ("gb_per_s", "launch_us", "transfer_us", "transfer_gb_per_s")))


def quantity(node: Node) -> Quantity:
    return Quantity(float(node.value["value"].value), node.text("source"), node.flag("assumed"), node.text("doc"))
