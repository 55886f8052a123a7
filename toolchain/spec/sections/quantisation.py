"""Section quantisation: the integers that a machine stores and how it calculates with them."""

from collections.abc import Mapping
from typing import Any

from toolchain.spec.context import Context
from toolchain.spec.errors import fail
from toolchain.spec.model.quantisation import AverageRule, FirstRounding, Fraction, Numerics, Range
from toolchain.spec.yaml_nodes import Node

RANGES = ("weight", "activation", "bias", "shift", "bias_shift", "align")
SHIFTS = ("shift", "bias_shift", "align")
LONGEST = 63
SIZES: Mapping[str, tuple[int, int]] = {"multiplier_bits": (1, 31), "accumulator_bits": (8, 32), "shift_span": (0, LONGEST)}
AVERAGE_BITS = (2, 16)


def quantisation(context: Context) -> Numerics | None:
    """None where the file has no such section. Raises UserError E0116 for a range that is empty or holds no zero, and for a size that cannot be."""
    node = context.root.get("quantisation")
    if node is None:
        return None
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


def _average(context: Context, node: Node) -> AverageRule:
    table = [(*map(int, name.split("x", 1)), _fraction(context, name, n)) for name, n in node.members("table")]
    bits = _number(context, "bits", n, AVERAGE_BITS) if (n := node.get("bits")) else AverageRule().bits
    return AverageRule(tuple((height, width, fraction) for height, width, fraction in table), bits)
