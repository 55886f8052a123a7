"""Sections numerics, program, host, operators, fusion and pipeline: the conventions between the machine, the host and the compiler."""

import math
from collections.abc import Mapping

from toolchain.spec.context import Context
from toolchain.spec.errors import fail
from toolchain.spec.model import Constraint, Host, Level, Outline, ProgramRules, Quantity, RegionLimits, Rule, Tolerance, Tool
from toolchain.spec.model.storage import stream_levels
from toolchain.spec.model.types import parse_scalar
from toolchain.spec.yaml_nodes import Node, gather


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


def program(root: Node, levels: tuple[Level, ...]) -> ProgramRules:
    """Raises UserError E0116 for a raw container on a machine with several streams, which only an object can hold."""
    node = root.value["program"]
    several = math.prod(level.count for level in stream_levels(levels)) > 1
    container = node.text("container", "object" if several else "raw")
    if several and container == "raw":
        raise fail("E0116", "several streams do not fit a raw program", node.value["container"].span, "write container: object")
    return ProgramRules(node.text("ends"), node.flag("last"), container)


def host(context: Context) -> Host | None:
    """The declared speed of the host, where the file has one."""
    node = context.root.get("host")
    if node is None:
        return None
    kinds = {name: quantity(n) for name, n in node.members("gmac_per_s")}
    rates = (quantity(node.value[key]) for key in ("gb_per_s", "launch_us", "transfer_us", "transfer_gb_per_s"))
    step = node.get("step_us")
    return Host(kinds, *rates, step_us=None if step is None else quantity(step))


def tool(root: Node) -> Tool | None:
    """The vendor's compiler, where the file has one."""
    node = root.get("tool")
    if node is None:
        return None
    arguments = tuple(str(item.value) for item in node.entries("arguments"))
    return Tool(node.text("compiler"), node.text("device"), arguments, node.value["seconds"].value, node.value["megabytes"].value)


def tolerance(root: Node) -> Tolerance | None:
    """How far results may be off, where the file says it."""
    node = root.get("tolerance")
    return Tolerance(float(node.value["absolute"].value), float(node.value["relative"].value), node.text("because")) if node else None


def half(context: Context) -> bool:
    """Whether graphs compute in float16. Raises UserError E0109 where the file does not say how far results are then off."""
    node = context.root.get("half")
    found = bool(node and context.number(node))
    if node and found and context.root.get("tolerance") is None:
        hint = "tolerance: {absolute: NUMBER, relative: NUMBER, because: REASON}"
        raise fail("E0109", "missing key 'tolerance': results in float16 are not those of float32", node.span, hint)
    return found


def limits(context: Context) -> RegionLimits:
    """The section `regions`. Raises UserError E0105 for a limit below 1, which no region could keep."""
    found: dict[str, int] = {}
    for name, node in context.root.members("regions"):
        found[name] = context.number(node)
        if found[name] < 1:
            raise fail("E0105", f"a region with at most {found[name]} {name.replace('_', ' ')} cannot be", node.span)
    return RegionLimits(**found)


def quantity(node: Node) -> Quantity:
    """`{value: NUMBER, source: TEXT}`; the schema has seen that the value is a number."""
    return Quantity(float(node.value["value"].value), node.text("source"), node.flag("assumed"), node.text("doc"))


def operators(context: Context) -> Mapping[str, tuple[Constraint, ...]]:
    """By kind of operation; conditions over its numbers, parameters in place. The kinds and their numbers are known where kernels are."""
    return {kind: tuple(_condition(context, n) for n in node.children()) for kind, node in context.root.members("operators")}


def _condition(context: Context, node: Node) -> Constraint:
    return Constraint(context.expr(node.value["that"]), node.text("message"))


def outline(root: Node, name: str) -> Outline | None:
    """A section whose words belong to the graph's passes, which read it from its node."""
    node = root.get(name)
    return None if node is None else Outline(node.plain(), node)
