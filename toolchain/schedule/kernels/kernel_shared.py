"""Shared parts of a kernel file: pools, registers, segments, and parts that they name."""

from collections.abc import Mapping
from dataclasses import dataclass

from toolchain.spec.context import Context
from toolchain.spec.errors import fail, nearest
from toolchain.spec.model import Machine
from toolchain.spec.yaml_nodes import Node

ON_CHIP = ("scratchpad", "ring")
"""Kinds of memories in which tiles have slots."""


@dataclass(frozen=True)
class Shared:
    """As in Kernel. sequences, shapes: by name, as written."""

    pools: Mapping[str, int]
    registers: str
    segments: Mapping[str, int]
    sequences: Mapping[str, Node]
    shapes: Mapping[str, Node]


def read_shared(machine: Machine, context: Context, root: Node) -> Shared:
    """Raises UserError E1002 for memories, registers and segments that the machine lacks, and for sequences that are called like instructions."""
    pools = {name: _pool(machine, context, name, node) for name, node in root.members("pools")}
    sequences, shapes = dict(root.members("sequences")), dict(root.members("shapes"))
    for name, node in sequences.items():
        if name in machine.instruction:
            raise fail("E1002", f"'{name}' is an instruction, and cannot be a sequence", node.where())
    node = root.get("registers")
    if node is None:
        return Shared(pools, "", {}, sequences, shapes)
    held = machine.memory.get(str(node.value))
    if held is None or not held.host:
        known = [m.name for m in machine.memories if m.host]
        raise fail("E1002", f"the host sets no registers '{node.value}'", node.span, nearest(str(node.value), known))
    for name, n in root.members("segments"):
        if n.value >= held.depths[0]:
            raise fail("E1002", f"segment '{name}' has register {n.value}, and '{held.name}' has {held.depths[0]}", n.span)
    return Shared(pools, held.name, {name: int(n.value) for name, n in root.members("segments")}, sequences, shapes)


def _pool(machine: Machine, context: Context, name: str, node: Node) -> int:
    """How many banks a pool of this memory has."""
    size, held = context.number(node.value["banks"]), machine.memory.get(name)
    if held is None or held.kind not in ON_CHIP:
        known = [memory.name for memory in machine.memories if memory.kind in ON_CHIP]
        text = f"unknown memory '{name}'" if held is None else f"slots are on chip, and memory '{name}' is of kind {held.kind}"
        raise fail("E1002", text, node.where(), nearest(name, known))
    if size < 1 or held.banks % size:
        counted = f"{held.banks} banks" if held.banks > 1 else "one bank"
        raise fail("E1002", f"the {counted} of '{name}' cannot be divided into pools of {size}", node.value["banks"].span, _sizes(held.banks))
    return size


def _sizes(banks: int) -> str:
    """The sizes that pools of so many banks can have."""
    return "possible: " + ", ".join(str(size) for size in range(1, banks + 1) if not banks % size)
