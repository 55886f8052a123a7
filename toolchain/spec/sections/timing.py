"""Sections timing and costs: clock, constants, resources and classes; area, energy and static power; each number with its source."""

from collections.abc import Iterable

from toolchain.spec.context import Context
from toolchain.spec.errors import fail, nearest
from toolchain.spec.expr import Name, walk
from toolchain.spec.model import Resource, Timing, TimingClass, TimingConstant, Transfer
from toolchain.spec.model.conventions import RUN_COUNTS, CostTerm, MachineCosts
from toolchain.spec.yaml_nodes import Node, gather


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


def costs(context: Context) -> MachineCosts | None:
    """None where the file has none. Raises UserError E0105 for a negative count of pieces, E0107 for an unknown count of a run."""
    node = context.root.get("costs")
    if node is None:
        return None
    known = (*RUN_COUNTS, *(f"{name}.{way}" for name, _ in context.root.members("memories") for way in ("read", "written")))
    return MachineCosts(**{name: tuple(gather(lambda item: _term(context, *item, known), entry.items())) for name, entry in node.items()})


def _term(context: Context, name: str, node: Node, known: tuple[str, ...]) -> CostTerm:
    count = node.get("count")
    pieces = context.number(count) if count else 1
    if count and pieces < 0:
        raise fail("E0105", f"count = {pieces} is below 0", count.span)
    for word in node.entries("per"):
        if str(word.value) not in known:
            raise fail("E0107", f"a run has no count '{word.value}'", word.span, nearest(str(word.value), known) or f"known: {', '.join(known)}")
    per = tuple(str(word.value) for word in node.entries("per"))
    return CostTerm(name, float(node.value["each"].value), pieces, node.text("source"), per, node.flag("assumed"), node.text("doc"))
