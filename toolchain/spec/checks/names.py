"""Checks that names mean one thing, and that what they refer to exists."""

import keyword
from collections.abc import Collection, Iterator

from toolchain.spec.errors import Diagnostic
from toolchain.spec.model import Machine
from toolchain.spec.suggest import nearest
from toolchain.spec.words import RESERVED
from toolchain.spec.yaml_nodes import Node


def check_names(machine: Machine, root: Node) -> Iterator[Diagnostic]:
    """E0107 for references to nothing, E0145 for a name with two meanings."""
    yield from _references(machine, root)
    yield from _taken(machine, root)


def _references(machine: Machine, root: Node) -> Iterator[Diagnostic]:
    scopes = {"device", *(level.name for level in machine.levels)}
    memories = {name for name, _ in root.members("memories")}
    units = {u.name for u in machine.units}
    for _, node in root.members("memories"):
        yield from _known("scope", node.get("scope"), scopes)
        yield from _known("instruction", node.get("latches"), machine.instruction)
        for entry in ports.entries("priority") if (ports := node.get("ports")) else ():
            yield from _known("unit", entry, units)
    for _, node in root.members("units"):
        for entry in [*node.entries("reads"), *node.entries("writes")]:
            yield from _known("memory", entry, memories)
    sync, timing = root.get("sync"), root.value["timing"]
    for _, node in sync.members("counters") if sync else ():
        yield from _known("scope", node.get("scope"), scopes)
    for node in sync.entries("rules") if sync else ():
        for level, mask in node.members("over"):
            if level not in scopes:
                yield Diagnostic("E0107", f"unknown level '{level}'", mask.key_span, nearest(level, scopes))
    for _, node in timing.members("resources"):
        yield from _known("scope", node.get("scope"), scopes)
        for entry in node.entries("priority"):
            yield from _known("unit", entry, units)
    program = root.get("program")
    yield from _known("instruction", program.get("ends") if program else None, machine.instruction)


def _known(what: str, node: Node | None, known: Collection[str]) -> Iterator[Diagnostic]:
    if node is not None and node.value not in known:
        yield Diagnostic("E0107", f"unknown {what} '{node.value}'", node.span, nearest(str(node.value), known))


def _taken(machine: Machine, root: Node) -> Iterator[Diagnostic]:
    """Names that expressions use must not be parameters, words of the language, or one thing in two sections."""
    meaning = dict.fromkeys(RESERVED, "a word of the language") | dict.fromkeys(machine.params, "a parameter")
    for section in ("topology", "memories", "numerics"):
        for name, node in root.members(section):
            yield from _free(name, node, meaning)
            meaning[name] = f"in section {section}"
    for name, node in root.value["timing"].members("constants"):
        yield from _free(name, node, meaning)
        meaning[name] = "in section timing"
    for name, node in root.members("units"):
        yield from _free(name, node, dict.fromkeys(machine.params, "a parameter"))
    for field in machine.declared_fields:
        if field.name in meaning or keyword.iskeyword(field.name):
            used = meaning.get(field.name, "a word of the language")
            yield Diagnostic("E0145", f"the field name '{field.name}' is {used} already", field.span)


def _free(name: str, node: Node, meaning: dict[str, str]) -> Iterator[Diagnostic]:
    if name in meaning or keyword.iskeyword(name):
        yield Diagnostic("E0145", f"the name '{name}' is {meaning.get(name, 'a word of the language')} already", node.key_span)
