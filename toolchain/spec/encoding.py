"""Section encoding: formats and where each field stands."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from toolchain.spec.context import Context
from toolchain.spec.errors import fail
from toolchain.spec.evaluate import ceil_div
from toolchain.spec.model import Encoding, Field
from toolchain.spec.yaml_nodes import Node


@dataclass(frozen=True)
class Format:
    bits: int
    fields: tuple[Field, ...]
    unused: str


def formats(context: Context) -> dict[str, Format]:
    """Every format with its parent's fields first. A field never straddles the encoding's unit."""
    node = context.root.value["encoding"]
    unit = context.number(node.value["unit"])
    found: dict[str, Format] = {}
    for name, item in node.value["formats"].items():
        found[name] = _format(context, item, unit, found)
    return found


def _format(context: Context, node: Node, unit: int, known: Mapping[str, Format]) -> Format:
    parent = node.get("extends")
    plain = node.get("fields") is None and parent is None and node.get("bits") is None
    members = node if plain else node.get("fields")
    fields = list(known[parent.value].fields) if parent else []
    cursor = max((f.lsb + f.bits for f in fields), default=0)
    bits = context.number(b) if (b := node.get("bits")) else 0
    for name, item in members.items() if members else ():
        field = _field(context, name, item, unit, cursor)
        if bits and field.lsb + field.bits > bits:
            raise fail("E0113", f"field '{name}' needs bits {field.lsb}..{field.lsb + field.bits - 1}, the format has {bits}", item.key_span)
        fields.append(field)
        cursor = field.lsb + field.bits
    unused = node.get("unused")
    return Format(bits, tuple(fields), str(unused.value) if unused else "")


def _field(context: Context, name: str, node: Node, unit: int, cursor: int) -> Field:
    if at := node.get("at"):
        found = re.fullmatch(r"(\d+)\.(\d+)-(\d+)", str(at.value))
        if not found:
            raise fail("E0114", f"'{at.value}' is not a place", at.span, "write WORD.MSB-LSB, for example 1.17-12")
        word, high, low = map(int, found.groups())
        lsb, bits = word * unit + low, high - low + 1
    else:
        bits = context.number(node.value["bits"])
        lsb = cursor if cursor // unit == (cursor + bits - 1) // unit else ceil_div(cursor, unit) * unit
    names = node.get("names")

    def number(key: str, default: int | None = None) -> int | None:
        item = node.get(key)
        return context.number(item) if item else default

    def text(key: str) -> str:
        item = node.get(key)
        return str(item.value) if item else ""

    return Field(
        name, lsb, bits, bool(text("signed") == "True"), number("minus", 0) or 0, text("role") or "compute", number("default"),
        number("radix", 10) or 10, {k: context.number(v) for k, v in names.items()} if names else {},
        text("assumed") == "True", text("doc"), node.key_span,
    )  # fmt: skip


def encoding(context: Context, formats: Mapping[str, Format]) -> Encoding:
    node = context.root.value["encoding"]
    unit = context.number(node.value["unit"]) // 8
    pad = context.number(p) if (p := node.get("pad_words")) else 1
    assembly = node.get("assembly")
    positional = assembly.get("positional") if assembly else None
    assign = assembly.get("assign") if assembly else None
    return Encoding(
        unit, max(f.bits for f in formats.values()) // 8, unit * pad,
        tuple(n.value for n in positional.value) if positional else (), str(assign.value) if assign else "=",
    )  # fmt: skip
