"""Numerics from the section `quantisation` of a machine's description."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from toolchain.graph.numerics import AverageRule, Fraction, Numerics, Range
from toolchain.spec.errors import fail
from toolchain.spec.resources import PACKAGE
from toolchain.spec.schema import validate
from toolchain.spec.yaml_nodes import Node

SCHEMA = PACKAGE / "schemas" / "quantisation.schema.json"
COPIES = ("concat", "max_pool", "pad", "upsample", "flatten")
"""Operations that move values and cannot rescale them: their tensors always share a scale."""


def read_numerics(section: Node) -> Numerics:
    """Raises UserError E0108, E0109, E0116 (schema) and E0116 (a range that is empty or holds no zero)."""
    validate(section, SCHEMA)
    for name in ("weight", "activation", "bias", "shift", "bias_shift", "align"):
        given = section.get(name)
        if given is not None and not _sensible(name, *given.plain()):
            raise fail("E0116", f"'{name}' must be [least, greatest], {_rule(name)}", given.span)
    plain: Mapping[str, Any] = section.plain()
    return Numerics(**{_KEYS.get(name, name): _READERS[name](value) if name in _READERS else value for name, value in plain.items()})


def _sensible(name: str, low: int, high: int) -> bool:
    if name in ("shift", "bias_shift", "align"):
        return 0 <= low <= high <= 63
    return -(2**31) <= low < 0 < high < 2**31 and (name == "bias" or (low >= -128 and high <= 127))


def _rule(name: str) -> str:
    if name in ("shift", "bias_shift", "align"):
        return "from 0 to 63"
    return "around zero, within 32 bits" if name == "bias" else "around zero, within 8 bits"


def _average(value: Mapping[str, Any]) -> AverageRule:
    table: Mapping[str, Any] = value.get("table", {})
    entries = ((*map(int, name.split("x", 1)), Fraction(*fraction)) for name, fraction in table.items())
    return AverageRule(tuple((height, width, fraction) for height, width, fraction in entries), value.get("bits", 8))


def _range(value: Any) -> Range:
    return Range(*value)


def _fraction(value: Any) -> Fraction:
    return Fraction(*value)


def _kinds(value: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*COPIES, *map(str, value))))


_KEYS: Mapping[str, str] = MappingProxyType({"scale": "form"})
_READERS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    dict.fromkeys(("weight", "activation", "bias", "shift", "bias_shift", "align"), _range)
    | {"average": _average, "leaky": _fraction, "one_scale": _kinds}
)
