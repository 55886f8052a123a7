"""Sections numerics, quantisation, program, host, operators, fusion and pipeline: the conventions between the machine, the host and the
compiler; and sections timing and costs, each number with its source."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from toolchain.spec.context import Context
from toolchain.spec.errors import fail, nearest
from toolchain.spec.expr import Name, walk
from toolchain.spec.model import (
    Constraint,
    Host,
    Level,
    Outline,
    ProgramRules,
    Quantity,
    RegionLimits,
    Resource,
    Rule,
    Timing,
    TimingClass,
    TimingConstant,
    Tolerance,
    Tool,
    Transfer,
)
from toolchain.spec.model.conventions import RUN_COUNTS, CostTerm, MachineCosts
from toolchain.spec.model.quantisation import AverageRule, FirstRounding, Floats, Format, Fraction, Numerics, Range, SumOrder
from toolchain.spec.model.structure import stream_levels
from toolchain.spec.model.types import BF16, F16, parse_scalar
from toolchain.spec.yaml_nodes import Node, gather

RANGES = ("weight", "activation", "bias", "shift", "bias_shift", "align")
SHIFTS = ("shift", "bias_shift", "align")
LONGEST = 63
SIZES: Mapping[str, tuple[int, int]] = {"multiplier_bits": (1, 31), "accumulator_bits": (8, 32), "shift_span": (0, LONGEST)}
AVERAGE_BITS = (2, 16)


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


def tolerance(context: Context) -> Tolerance | None:
    """How far results may be off, where the file says it."""
    found = context.root.get("tolerance")
    nodes = [] if found is None else found.children() if isinstance(found.value, list) else [found]
    node = next((each for each in nodes if (when := each.get("when")) is None or context.number(when)), None)
    return Tolerance(float(node.value["absolute"].value), float(node.value["relative"].value), node.text("because")) if node else None


def half(context: Context) -> bool:
    """Whether graphs compute in float16. Raises UserError E0109 where the file does not say how far results are then off."""
    node = context.root.get("half")
    found = bool(node and context.number(node))
    if node and found:
        _check_tolerance(context, node)
    return found


def _check_tolerance(context: Context, node: Node) -> None:
    """Raises UserError E0109. node: where the file says that results are float16."""
    if tolerance(context) is None:
        hint = "tolerance: {absolute: NUMBER, relative: NUMBER, because: REASON}"
        raise fail("E0109", "missing key 'tolerance': results in float16 are not those of float32", node.span, hint)


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


def quantisation(context: Context) -> Numerics | None:
    """None where the file has no such section. Raises UserError E0116 for a range that is empty or holds no zero, and for a size that cannot be."""
    node = context.root.get("quantisation")
    if node is None:
        return None
    if (floats := node.get("floats")) and context.number(floats.value["when"]):
        _check_tolerance(context, floats)
        return Numerics(form="none", floats=_floats(context, floats))
    free = ("activation",) if node.flag("zero_points") else ()
    found: dict[str, Any] = {name: _range(context, name, n, name in free) for name in RANGES if (n := node.get(name))}
    found |= {name: _number(context, name, n, limits) for name, limits in SIZES.items() if (n := node.get(name))}
    found |= {name: n.value for name in ("rounding", "order", "per_channel", "zero_points") if (n := node.get(name))}
    if average := node.get("average"):
        found["average"] = _average(context, average)
    if first := node.get("first_rounding"):
        found["first_rounding"] = _first(context, first, str(node.value["scale"].value))
    if leaky := node.get("leaky"):
        found["leaky"] = _fraction(context, "leaky", leaky)
    shared = tuple(dict.fromkeys(str(n.value) for n in node.entries("one_scale")))
    return Numerics(form=node.value["scale"].value, one_scale=shared, **found)


def _floats(context: Context, node: Node) -> Floats:
    """Names of operations and their indices are known where kernels are."""
    listed = {name: found.children() if isinstance(found.value, list) else [found] for name, found in node.members("sums")}
    orders = tuple((name, tuple(_sum_order(context, order) for order in found)) for name, found in listed.items())
    return Floats(orders, _format(context, node))


def _format(context: Context, node: Node) -> Format:
    """f16 where nothing is said. Raises UserError E0116 for a format of other bits."""
    kind = node.get("format")
    found = F16 if kind is None else parse_scalar(str(kind.value), context.names, kind.locate, floats=True)
    if found not in (F16, BF16):
        assert kind is not None
        raise fail("E0116", f"tensors are f16 or bf16, not {found}", kind.span)
    return "f16" if found == F16 else "bf16"


def _sum_order(context: Context, node: Node) -> SumOrder:
    blocks, terms = (tuple(map(context.expr, node.entries(key))) for key in ("blocks", "terms"))
    where = node.get("where")
    over = tuple((index, (context.expr(ends.value[0]), context.expr(ends.value[1]))) for index, ends in node.members("over"))
    return SumOrder(blocks, terms, context.expr(where) if where else None, over)


def _number(context: Context, name: str, node: Node, limits: tuple[int, int]) -> int:
    value = context.number(node)
    if not limits[0] <= value <= limits[1]:
        raise fail("E0116", f"'{name}' is {value}, it must be from {limits[0]} to {limits[1]}", node.span)
    return value


def _range(context: Context, name: str, node: Node, free: bool) -> Range:
    """free: zero need not be inside, as each tensor says where its own is."""
    low, high = (context.number(n) for n in node.children())
    if name in SHIFTS:
        sensible, rule = 0 <= low <= high <= LONGEST, f"from 0 to {LONGEST}"
    elif free:
        sensible, rule = low < high and (-128 <= low <= high < 128 or 0 <= low <= high < 256), "of int8 or of uint8"
    else:
        bits = 32 if name == "bias" else 8
        sensible, rule = -(1 << bits - 1) <= low < 0 < high < 1 << bits - 1, f"around zero, within {bits} bits"
    if not sensible:
        raise fail("E0116", f"'{name}' must be [least, greatest], {rule}", node.span)
    return Range(low, high)


def _fraction(context: Context, name: str, node: Node) -> Fraction:
    numerator, shift = (context.number(n) for n in node.children())
    if numerator < 0 or not 0 <= shift <= LONGEST:
        raise fail("E0116", f"'{name}' must be [numerator, shift], neither below zero, the shift at most {LONGEST}", node.span)
    return Fraction(numerator, shift)


def _first(context: Context, node: Node, form: str) -> FirstRounding:
    if form != "multiplier":
        raise fail("E0116", "'first_rounding' belongs to 'scale: multiplier'", node.where())
    shift = context.number(node.value["shift"])
    if not 1 <= shift <= LONGEST - 1:
        raise fail("E0116", f"the shift of 'first_rounding' is {shift}, it must be from 1 to {LONGEST - 1}", node.value["shift"].span)
    return FirstRounding(shift, node.value["rounding"].value)


def _mean(context: Context, name: str, node: Node) -> Fraction:
    """The factor of a window like `3x6`, whose numerator may be cut off, rounded or rounded up, as hardware has it.

    Raises UserError E0116 for one that is further off, as a sum times it is no mean."""
    height, width = map(int, name.split("x", 1))
    found, area = _fraction(context, name, node), height * width
    if abs(found.numerator * area - (1 << found.shift)) >= area:
        nearest = ((2 << found.shift) + area) // (2 * area)
        text = f"{found.numerator} / 2**{found.shift} is no mean over {name}: with that shift, {nearest} is nearest to 1 / {area}"
        raise fail("E0116", text, node.span)
    return found


def _average(context: Context, node: Node) -> AverageRule:
    table = [(*map(int, name.split("x", 1)), _mean(context, name, n)) for name, n in node.members("table")]
    bits = _number(context, "bits", n, AVERAGE_BITS) if (n := node.get("bits")) else AverageRule().bits
    return AverageRule(tuple((height, width, fraction) for height, width, fraction in table), bits)


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
