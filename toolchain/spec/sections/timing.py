"""Section timing: clock, constants, resources and classes, each number with its source."""

from collections.abc import Iterable

from toolchain.spec.context import Context
from toolchain.spec.expr import Name, walk
from toolchain.spec.model import Resource, Timing, TimingClass, TimingConstant, Transfer
from toolchain.spec.yaml_nodes import Node


def timing(context: Context) -> Timing:
    """Classes may use the names of constants beside parameters."""
    node = context.root.value["timing"]
    constants: list[TimingConstant] = []
    inner = context
    for name, n in node.members("constants"):
        constants.append(TimingConstant(name, inner.number(n.value["value"]), n.text("source"), n.flag("assumed"), n.text("doc")))
        inner = inner.with_names({name: constants[-1].value})
    clock, peak = node.value["clock_khz"], node.get("peak_macs")
    return Timing(
        inner.number(clock.value["value"]),
        clock.text("source"),
        tuple(constants),
        tuple(_resource(inner, name, n) for name, n in node.members("resources")),
        tuple(_class(inner, name, n, [c.name for c in constants]) for name, n in node.members("classes")),
        inner.number(peak.value["value"]) if peak else None,
        peak.text("source") if peak else "",
    )


def _resource(context: Context, name: str, node: Node) -> Resource:
    return Resource(
        name,
        context.number(node.value["bytes_per_cycle"]),
        node.text("policy", "fifo"),
        node.text("scope", "device"),
        tuple(n.value for n in node.entries("priority")),
        node.text("source"),
        node.flag("assumed"),
        context.number(per) if (per := node.get("per")) else 1,
    )


def _class(context: Context, name: str, node: Node, constants: Iterable[str]) -> TimingClass:
    cycles, setup, latency = (context.optional(node.get(key)) for key in ("cycles", "setup", "latency"))
    return TimingClass(
        name,
        cycles,
        setup,
        latency,
        tuple(Transfer(resource, context.expr(n)) for resource, n in node.members("transfers")),
        node.text("source"),
        node.flag("assumed"),
        _named(context, node, constants),
    )


def _named(context: Context, node: Node, constants: Iterable[str]) -> tuple[str, ...]:
    """The constants that a class names, in the order in which they are declared."""
    parts = [n for key in ("cycles", "setup", "latency") if (n := node.get(key))] + [n for _, n in node.members("transfers")]
    used = {e.id for part in parts for e in walk(context.parse(part)) if isinstance(e, Name)}
    return tuple(name for name in constants if name in used)
