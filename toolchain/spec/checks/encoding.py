"""Checks of the encoding: every bit has one owner, and every word one meaning."""

import itertools
from collections.abc import Iterator

from toolchain.spec.errors import Diagnostic
from toolchain.spec.model import Field, Instruction, Machine
from toolchain.spec.suggest import nearest
from toolchain.spec.yaml_nodes import Node


def check_encoding(machine: Machine, root: Node) -> Iterator[Diagnostic]:
    """E0117 overlap, E0118 uncovered bits, E0119 match, E0124 two meanings, E0125 undecidable length, E0107 names."""
    seen: set[str] = set()
    for instruction in machine.instructions:
        layout = root.at(("instructions", instruction.name, "format"))
        if layout.value not in seen:
            seen.add(layout.value)
            yield from _bits(instruction, root.at(("encoding", "formats", layout.value)))
        yield from _match(instruction, root.at(("instructions", instruction.name, "match")))
    yield from _assembly(machine, root)
    if all(name in {f.name for f in i.fields} for i in machine.instructions for name in i.match):
        yield from _meanings(machine)


def _bits(instruction: Instruction, node: Node) -> Iterator[Diagnostic]:
    owner: dict[int, Field] = {}
    for field in instruction.fields:
        taken = next((owner[b] for b in range(field.lsb, field.lsb + field.bits) if b in owner), None)
        if taken:
            yield Diagnostic("E0117", f"field '{field.name}' overlaps field '{taken.name}'", field.span)
        owner.update((b, field) for b in range(field.lsb, field.lsb + field.bits))
    free = [b for b in range(instruction.bytes * 8) if b not in owner]
    if free and node.text("unused") != "zero":
        text = f"bits {_ranges(free)} belong to no field" if len(free) > 1 else f"bit {free[0]} belongs to no field"
        yield Diagnostic("E0118", text, node.where(), "add 'unused: zero' if they must be zero")


def _ranges(bits: list[int]) -> str:
    groups = [list(group) for _, group in itertools.groupby(enumerate(bits), lambda pair: pair[1] - pair[0])]
    return ", ".join(f"{group[0][1]}..{group[-1][1]}" if len(group) > 1 else str(group[0][1]) for group in groups)


def _match(instruction: Instruction, node: Node) -> Iterator[Diagnostic]:
    fields = {f.name: f for f in instruction.fields}
    for name, value in instruction.match.items():
        item = node.value[name]
        if name not in fields:
            yield Diagnostic("E0119", f"the format has no field '{name}'", item.where(), nearest(name, fields))
        elif not 0 <= value < 1 << fields[name].bits:
            yield Diagnostic("E0119", f"{value} does not fit the {fields[name].bits} stored bits of '{name}'", item.span)


def _assembly(machine: Machine, root: Node) -> Iterator[Diagnostic]:
    names = {f.name for i in machine.instructions for f in i.fields}
    encoding = root.get("encoding")
    assembly = encoding.get("assembly") if encoding else None
    for entry in assembly.entries("positional") if assembly else ():
        if entry.value not in names:
            yield Diagnostic("E0107", f"unknown field '{entry.value}'", entry.span, nearest(entry.value, names))
    places = {*machine.memory, *machine.view}
    for field in machine.declared_fields:
        if field.relocates and field.relocates not in places:
            yield Diagnostic("E0107", f"field '{field.name}' relocates unknown '{field.relocates}'", field.span, nearest(field.relocates, places))


def _pattern(instruction: Instruction) -> tuple[int, int]:
    """Mask and value of the bits that identify an instruction."""
    mask = value = 0
    for field in instruction.fields:
        if field.name in instruction.match:
            ones = (1 << field.bits) - 1
            mask |= ones << field.lsb
            value |= (instruction.match[field.name] & ones) << field.lsb
    return mask, value


def _meanings(machine: Machine) -> Iterator[Diagnostic]:
    """Two instructions must differ in bits that both match; two of unlike length, within the first unit."""
    first = (1 << machine.encoding.unit_bytes * 8) - 1
    patterns = [(i, *_pattern(i)) for i in machine.instructions]
    for (a, mask_a, value_a), (b, mask_b, value_b) in itertools.combinations(patterns, 2):
        differ = mask_a & mask_b & (value_a ^ value_b) | _told_apart(a, b)
        if not differ:
            yield Diagnostic("E0124", f"a word can match both {a.name} and {b.name}", b.span, "match a field whose values differ")
        elif a.bytes != b.bytes and not differ & first:
            text = f"{a.name} has {a.bytes} bytes and {b.name} has {b.bytes}, but their first {machine.encoding.unit_bytes} bytes can be the same"
            yield Diagnostic("E0125", text, b.span, "the first unit must decide the length")


def _told_apart(one: Instruction, other: Instruction) -> int:
    """The bits of the fields of which one of the two takes a value and the other one all others."""
    return _left(one, other) | _left(other, one)


def _left(one: Instruction, other: Instruction) -> int:
    named = {(f.lsb, f.bits) for f in other.fields if f.name in other.match}
    found = [f for f in one.fields if f.name in one.others and (f.lsb, f.bits) in named]
    return sum(((1 << f.bits) - 1) << f.lsb for f in found)
