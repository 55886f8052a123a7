"""Sections instructions, functions and portable.

`match: {function: others}` stands for all values of a field that no other instruction's match names.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from toolchain.spec.context import Context
from toolchain.spec.errors import fail
from toolchain.spec.expr import Compare, Const, Expr, Logic, Name
from toolchain.spec.model import Constraint, Field, Instruction, Pipelined, Text
from toolchain.spec.sections.encoding import Format
from toolchain.spec.sections.storage import absent
from toolchain.spec.yaml_nodes import Node, gather

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
