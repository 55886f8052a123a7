"""Section encoding: formats and where each field stands."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from toolchain.spec.context import Context
from toolchain.spec.errors import Span, UserError, fail
from toolchain.spec.evaluate import ceil_div
from toolchain.spec.model import Encoding, Field
from toolchain.spec.sections.storage import names
from toolchain.spec.yaml_nodes import Findings, Node

MAX_BITS = 4096
UNITS = (8, 16, 32, 64)


@dataclass(frozen=True)
class Format:
    """bits: 0 for one that only serves as a parent. unused: `zero` when bits without a field are declared to be zero."""

    bits: int
    fields: tuple[Field, ...]
    unused: str
    span: Span


def formats(context: Context) -> dict[str, Format]:
    """Every format with its parent's fields first. A field never straddles the encoding's unit.

    Raises UserError E0113 for a field that does not fit, E0114 for a place or width that cannot be, E0126 and E0127 for
    a default or a name outside its field, E0128 for a parent that is not declared above, E0139 for a bad length, E0145.
    """
    node = context.root.value["encoding"]
    unit = context.number(node.value["unit"])
    if unit not in UNITS:
        raise fail("E0139", f"a packing unit has 8, 16, 32 or 64 bits, not {unit}", node.value["unit"].span)
    found: dict[str, Format] = {}
    findings = Findings()
    later = [name for name, _ in node.members("formats")]
    for name, item in node.members("formats"):
        broken = Format(0, (), "", item.where())
        found[name] = findings.attempt(broken, lambda name=name, item=item: _format(context, name, item, unit, found, later))
    findings.settle()
    return found


def _format(context: Context, name: str, node: Node, unit: int, known: Mapping[str, Format], later: list[str]) -> Format:
    plain = all(node.get(key) is None for key in ("fields", "extends", "bits", "unused"))
    fields = [] if plain or not (parent := node.get("extends")) else list(_parent(context, name, parent, known, later).fields)
    cursor = max((f.lsb + f.bits for f in fields), default=0)
    bits = _length(context, node, unit) if not plain and node.get("bits") else 0
    for key, item in node.items() if plain else node.members("fields"):
        if any(f.name == key for f in fields):
            raise fail("E0145", f"the parent format has a field '{key}' already", item.where())
        field = _field(context, key, item, unit, cursor)
        if bits and field.lsb + field.bits > bits:
            raise _too_long(field, bits, name, item)
        fields.append(field)
        cursor = field.lsb + field.bits
    return Format(bits, tuple(fields), "" if plain else node.text("unused"), node.where())


def _too_long(field: Field, bits: int, name: str, node: Node) -> UserError:
    where = f"bits {field.lsb}..{field.lsb + field.bits - 1}"
    return fail("E0113", f"field '{field.name}' needs {where}, format '{name}' has {bits} bits", node.where())


def _parent(context: Context, name: str, parent: Node, known: Mapping[str, Format], later: list[str]) -> Format:
    if parent.value in known:
        return known[parent.value]
    if parent.value in later:
        raise fail("E0128", f"format '{name}' extends '{parent.value}', which is not declared above it", parent.span, "move the parent up")
    raise fail("E0128", f"unknown format '{parent.value}'", parent.span, context.near(parent.value, known))


def _length(context: Context, node: Node, unit: int) -> int:
    bits = context.number(node.value["bits"])
    if not 0 < bits <= MAX_BITS or bits % unit:
        raise fail("E0139", f"an instruction of {bits} bits is not one to {MAX_BITS // unit} units of {unit} bits", node.value["bits"].span)
    return bits


def _field(context: Context, name: str, node: Node, unit: int, cursor: int) -> Field:
    lsb, bits = _place(node.value["at"], unit) if node.get("at") else _packed(context, node, unit, cursor, name)

    def number(key: str, default: int) -> int:
        item = node.get(key)
        return context.number(item) if item else default

    default = number("default", 0) if node.get("default") else None
    symbols = {key: context.number(value) for key, value in node.members("names")}
    known, stated = (tuple(context.number(value) for value in node.entries(key)) for key in ("known", "stated"))
    field = Field(
        name, lsb, bits, node.flag("signed"), number("minus", 0), node.text("role", "compute"), default,
        number("radix", 10), symbols, node.flag("assumed"), node.text("doc"), node.key_span, node.text("relocates"), known, stated,
    )  # fmt: skip
    _check_values(field, node)
    return field


def _place(at: Node, unit: int) -> tuple[int, int]:
    """`WORD.MSB-LSB` as lsb and width."""
    found = re.fullmatch(r"(\d+)\.(\d+)-(\d+)", str(at.value), re.ASCII)
    word, high, low = map(int, found.groups()) if found else (0, 0, 0)
    if not found or not low <= high < unit:
        raise fail("E0114", f"'{at.value}' is not a place in a unit of {unit} bits", at.span, "write WORD.MSB-LSB, for example 1.17-12")
    return word * unit + low, high - low + 1


def _packed(context: Context, node: Node, unit: int, cursor: int, name: str) -> tuple[int, int]:
    bits = context.number(node.value["bits"])
    if not 1 <= bits <= unit:
        raise fail("E0114", f"field '{name}' has {bits} bits; a field has 1 to {unit}, one unit", node.value["bits"].span)
    return cursor if cursor // unit == (cursor + bits - 1) // unit else ceil_div(cursor, unit) * unit, bits


def _check_values(field: Field, node: Node) -> None:
    if field.high >= 1 << 63 or field.low < -(1 << 63):
        raise fail("E0114", f"field '{field.name}' holds values that do not fit 64 signed bits", node.where())
    if field.default is not None and not field.low <= field.default <= field.high:
        raise fail("E0126", f"the default {field.default} is outside {field.low}..{field.high}", node.value["default"].span)
    for name, value in field.names.items():
        if not field.low <= value <= field.high:
            raise fail("E0127", f"'{name}' is {value}, outside {field.low}..{field.high}", node.value["names"].value[name].span)


def encoding(context: Context, formats: Mapping[str, Format]) -> Encoding:
    """Raises UserError E0139 for a padding that is not at least one unit."""
    node = context.root.value["encoding"]
    unit = context.number(node.value["unit"]) // 8
    pad = context.number(p) if (p := node.get("pad_words")) else 1
    if not 1 <= pad <= 1 << 16:
        raise fail("E0139", f"a program cannot be padded to {pad} units", node.value["pad_words"].span)
    assembly = node.get("assembly")
    return Encoding(
        unit,
        max(f.bits for f in formats.values()) // 8,
        unit * pad,
        names(assembly, "positional") if assembly else (),
        assembly.text("assign", "=") if assembly else "=",
    )
