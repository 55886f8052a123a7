"""Section sync.nops: for a unit, an instruction that does nothing."""

from collections.abc import Sequence

from toolchain.spec.context import Context
from toolchain.spec.errors import UserError, fail
from toolchain.spec.evaluate import constant
from toolchain.spec.findings import Findings
from toolchain.spec.model import Field, Instruction, Nop, Unit
from toolchain.spec.suggest import nearest
from toolchain.spec.yaml_nodes import Node


def idle(context: Context, units: Sequence[Unit], instructions: Sequence[Instruction]) -> tuple[Nop, ...]:
    """Raises UserError E0107 for an unknown unit or instruction, E0131 for a field that it lacks or that identifies it,
    E0144 for a value outside its field, or fields that send the instruction to another unit."""
    node = context.root.get("sync")
    if node is None:
        return ()
    findings, found = Findings(), list[Nop]()
    for name, item in node.members("nops"):
        findings.attempt(None, lambda name=name, item=item: found.append(_nop(context, name, item, units, instructions)))
    findings.settle()
    return tuple(found)


def _nop(context: Context, unit: str, node: Node, units: Sequence[Unit], instructions: Sequence[Instruction]) -> Nop:
    names = [u.name for u in units]
    if unit not in names:
        raise fail("E0107", f"unknown unit '{unit}'", node.key_span, nearest(unit, names))
    instruction = next((i for i in instructions if i.name == node.text("instruction")), None)
    if instruction is None:
        wanted = node.value["instruction"]
        raise fail("E0107", f"unknown instruction '{wanted.value}'", wanted.span, nearest(str(wanted.value), [i.name for i in instructions]))
    given = dict(node.members("fields"))
    free = {f.name: f for f in instruction.fields if f.name not in instruction.match}
    for name, item in given.items():
        if name not in free:
            raise fail("E0131", f"'{name}' is no field of {instruction.name} that can be chosen", item.key_span, nearest(name, free))
    fields = {name: _value(context, field, given.get(name)) for name, field in free.items()}
    place = constant(instruction.unit, {**context.names, **{level: 0 for level, _ in context.root.members("topology")}, **fields})
    if not 0 <= place < len(names) or names[place] != unit:
        raise fail("E0144", f"with these fields {instruction.name} does not go to unit '{unit}'", node.where())
    return Nop(unit, instruction.name, fields)


def _value(context: Context, field: Field, node: Node | None) -> int:
    if node is None:
        return min(max(field.default or 0, field.low), field.high)
    value = field.names[node.value] if node.value in field.names else context.number(node)
    if not field.low <= value <= field.high:
        raise _outside(field, value, node)
    return value


def _outside(field: Field, value: int, node: Node) -> UserError:
    return fail("E0144", f"{value} is outside {field.low}..{field.high} of '{field.name}'", node.span)
