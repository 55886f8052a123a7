"""`match: {function: others}`: an instruction for all values of a field that no other instruction's match names."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from toolchain.spec.errors import fail
from toolchain.spec.expr import Compare, Const, Expr, Logic, Name
from toolchain.spec.findings import gather
from toolchain.spec.model import Constraint, Field, Instruction
from toolchain.spec.yaml_nodes import Node

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
