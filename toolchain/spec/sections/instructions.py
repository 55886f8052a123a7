"""Sections encoding, instructions, functions and portable: formats, where each field stands, and the instructions themselves."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from toolchain.spec.context import Context
from toolchain.spec.errors import Span, UserError, fail
from toolchain.spec.evaluate import ceil_div
from toolchain.spec.expr import Compare, Const, Expr, Logic, Name
from toolchain.spec.model import Constraint, Encoding, Field, Instruction, Pipelined, Text
from toolchain.spec.sections.storage import absent, names
from toolchain.spec.yaml_nodes import Findings, Node, gather

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


OTHERS = "others"


def with_others(known: Sequence[Instruction], root: Node) -> tuple[Instruction, ...]:
    """The instructions, each that takes all other values of a field bound not to hold one that is taken.

    Raises UserError E0119 where no other instruction names a value, or where none is left.
    """
    return tuple(gather(lambda instruction: _bound(instruction, known, root), known))


def _bound(instruction: Instruction, known: Sequence[Instruction], root: Node) -> Instruction:
    rules = [_rule(instruction, name, known, root.at(("instructions", instruction.name, "match", name))) for name in instruction.others]
    return replace(instruction, constraints=(*rules, *instruction.constraints)) if rules else instruction


def _rule(instruction: Instruction, name: str, known: Sequence[Instruction], node: Node) -> Constraint:
    field = next((f for f in instruction.fields if f.name == name), None)
    if field is None:
        raise fail("E0119", f"the format has no field '{name}'", node.where(), "")
    taken = {stored: other.name for other in known for stored in _named(instruction, field, other)}
    if not taken:
        raise fail("E0119", f"no other instruction matches a value of '{name}'", node.span, "match a number, or leave the field out")
    if len(taken) == 1 << field.bits:
        raise fail("E0119", f"other instructions match every value of '{name}'", node.span)
    values = {_value(field, stored): owner for stored, owner in sorted(taken.items())}
    tests: tuple[Expr, ...] = tuple(Compare("!=", Name(name), Const(value)) for value in values)
    owners = ", ".join(f"{value} is {owner}" for value, owner in values.items())
    return Constraint(tests[0] if len(tests) == 1 else Logic("and", tests), f"'{name}' holds a value of another instruction: {owners}")


def _named(instruction: Instruction, field: Field, other: Instruction) -> Iterator[int]:
    """The stored value of the field that another instruction's match names, if the two are alike in all that both match."""
    if other.name == instruction.name:
        return
    places = {(f.lsb, f.bits): other.match[f.name] for f in other.fields if f.name in other.match}
    own = {(f.lsb, f.bits): instruction.match[f.name] for f in instruction.fields if f.name in instruction.match}
    if (field.lsb, field.bits) in places and all(places.get(place, value) == value for place, value in own.items()):
        yield places[field.lsb, field.bits]


def _value(field: Field, stored: int) -> int:
    negative = field.signed and stored >> (field.bits - 1) & 1
    return stored - (negative << field.bits) + field.minus


MOST_APART = 64


def instructions(context: Context, formats: Mapping[str, Format], units: Sequence[str]) -> tuple[Instruction, ...]:
    """Raises UserError E0107 for an unknown format, E0109 for one without a length, E0116 for semantics outside a block,
    E0119 for a match of all other values where there are none."""
    found = gather(lambda item: _instruction(context, *item, formats, units), context.root.members("instructions"))
    return with_others(found, context.root)


def block(node: Node) -> Text:
    """Semantics with their place: a literal block, or one line, plain or in quotes. Positions in other texts are not known."""
    if node.style == "|":
        return Text(node.value, node.span, node.indent)
    start = node.locate(1, 0)
    if node.style == ">" or node.value not in start.source.line(start.line):
        raise fail("E0116", "semantics must be a literal block or one line", node.span, "start it with | and a new line")
    return Text(f"{node.value}\n", replace(start, line=start.line - 1), start.column - 1)


def constraint(context: Context, node: Node, name: str = "") -> Constraint:
    """`{that: EXPRESSION, message: SENTENCE}`."""
    return Constraint(context.expr(node.value["that"]), node.text("message"), name)


def portable(context: Context, known: Sequence[str]) -> tuple[tuple[str, Constraint], ...]:
    """Raises UserError E0107 for an unknown instruction."""
    return tuple(pair for name, node in context.root.members("portable") for pair in _portable(context, name, node, known))


def _portable(context: Context, name: str, node: Node, known: Sequence[str]) -> list[tuple[str, Constraint]]:
    chosen = node.entries("instructions")
    for item in chosen:
        if item.value not in known:
            raise fail("E0107", f"unknown instruction '{item.value}'", item.span, context.near(item.value, known))
    rule = constraint(context, node, name)
    return [(instruction, rule) for instruction in ([item.value for item in chosen] or known)]


def _instruction(context: Context, name: str, node: Node, formats: Mapping[str, Format], units: Sequence[str]) -> Instruction:
    wanted = node.value["format"]
    if wanted.value not in formats:
        raise fail("E0107", f"unknown format '{wanted.value}'", wanted.span, context.near(wanted.value, formats))
    layout = formats[wanted.value]
    if not layout.bits:
        raise fail("E0109", f"format '{wanted.value}' has no 'bits', so {name} has no length", wanted.span)
    notes = node.get("assumed")
    return Instruction(
        name=name,
        bytes=layout.bits // 8,
        fields=layout.fields,
        match={key: context.number(value) for key, value in node.members("match") if value.value != OTHERS},
        others=tuple(key for key, value in node.members("match") if value.value == OTHERS),
        unit=context.expr(node.value["unit"], {u: i for i, u in enumerate(units)}),
        constraints=tuple(constraint(context, c) for c in node.entries("where")),
        semantics=block(node.value["semantics"]),
        timing=node.text("timing"),
        in_place=node.flag("in_place"),
        pipelined=_pipelined(context, node.get("pipelined")),
        occupies=_occupied(context, node, units),
        assumed=tuple(str(note.value) for note in notes.children()) if notes and isinstance(notes.value, list) else (),
        doc=node.text("doc"),
        span=node.key_span,
    )


def _occupied(context: Context, node: Node, units: Sequence[str]) -> tuple[str, ...]:
    for item in node.entries("occupies"):
        if item.value not in units:
            raise fail("E0107", f"unknown unit '{item.value}'", item.span, context.near(item.value, units))
    return tuple(item.value for item in node.entries("occupies"))


def _pipelined(context: Context, node: Node | None) -> Pipelined | None:
    """None where no step needs to be apart. Raises UserError E0107 for an unknown memory, E0139 for a distance that cannot be."""
    if node is None:
        return None
    apart, known = context.number(node.value["apart"]), dict(context.root.members("memories"))
    if not 0 <= apart <= MOST_APART:
        raise fail("E0139", f"steps are 0 to {MOST_APART} apart, not {apart}", node.value["apart"].span)
    for item in node.entries("memories"):
        if item.value not in known:
            raise fail("E0107", f"unknown memory '{item.value}'", item.span, context.near(item.value, known))
    there = tuple(item.value for item in node.entries("memories") if item.value not in absent(context))
    return Pipelined(there, apart, node.text("hazard", "error")) if apart and there else None
