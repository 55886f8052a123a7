"""The block diagram of a machine: memories, units, and an arrow for each memory that a unit reads or writes. One instance of each is drawn."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from toolchain.report.tables import scaled
from toolchain.spec.model import Machine, Memory
from toolchain.spec.model.instructions import Resource

BLOCK_WIDE, BLOCK_TALL, GAP, HEAD = 190, 46, 14, 26
"""Width and height of a block, the room between blocks, and that of a frame's title; pixels."""
ROOM = 170
"""Between columns, for the arrows."""


@dataclass(frozen=True)
class Block:
    """A memory (`memory`) or a unit (`unit`). lines: of text; doc: its description in the machine's file. x, y: of its upper left corner."""

    name: str
    role: str
    lines: tuple[str, ...]
    doc: str
    x: int
    y: int


@dataclass(frozen=True)
class ScopeFrame:
    """A frame around the blocks of one scope."""

    title: str
    x: int
    y: int
    width: int
    height: int


@dataclass(frozen=True)
class Arrow:
    """From a memory to a unit that reads it, or (`write`) the other way; path: of SVG."""

    unit: str
    memory: str
    write: bool
    path: str


@dataclass(frozen=True)
class MachinePicture:
    """width, height: pixels."""

    width: int
    height: int
    blocks: tuple[Block, ...]
    frames: tuple[ScopeFrame, ...]
    arrows: tuple[Arrow, ...]


def machine_picture(machine: Machine) -> MachinePicture:
    """Memories of the device to the left of the units, those of inner levels to the right, each level in a frame with its count."""
    outer = [memory for memory in machine.memories if memory.scope == "device"]
    inner = [level.name for level in machine.levels if any(memory.scope == level.name for memory in machine.memories)]
    middle, right = BLOCK_WIDE + ROOM, 2 * (BLOCK_WIDE + ROOM)
    frames, blocks = list[ScopeFrame](), list[Block]()
    columns = [[("the device", outer)], [], [(_count(machine, name), [m for m in machine.memories if m.scope == name]) for name in inner]]
    for x, column in zip((GAP, middle + GAP, right + GAP), columns, strict=True):
        y = GAP
        for title, memories in column:
            if memories:
                blocks += _stack(memories, machine, x, y + HEAD)
                frames.append(_frame(title, x, y, len(memories)))
                y = frames[-1].y + frames[-1].height + GAP
    if machine.units:
        frames.append(_frame(_unit_title(machine), middle + GAP, GAP, len(machine.units)))
        blocks += (
            Block(unit.name, "unit", (unit.name, "queue without limit" if unit.depth is None else f"queue of {unit.depth}"), unit.doc,
                  middle + GAP, GAP + HEAD + number * (BLOCK_TALL + GAP))
            for number, unit in enumerate(machine.units)
        )  # fmt: skip
    width = max((frame.x + frame.width for frame in frames), default=BLOCK_WIDE) + GAP
    height = max((frame.y + frame.height for frame in frames), default=BLOCK_TALL) + GAP
    return MachinePicture(width, height, tuple(blocks), tuple(frames), tuple(_arrows(machine, blocks)))


def _frame(title: str, x: int, y: int, blocks: int) -> ScopeFrame:
    return ScopeFrame(title, x - GAP // 2, y, BLOCK_WIDE + GAP, HEAD + blocks * (BLOCK_TALL + GAP) - GAP // 2)


def _stack(memories: Sequence[Memory], machine: Machine, x: int, y: int) -> Iterator[Block]:
    for number, memory in enumerate(memories):
        yield Block(memory.name, "memory", (memory.name, _size(memory, machine)), memory.doc, x, y + number * (BLOCK_TALL + GAP))


def _size(memory: Memory, machine: Machine) -> str:
    banks = f", {memory.banks} banks" if memory.banks > 1 else ""
    if memory.kind == "register":
        return f"register, {memory.elements} values" if not memory.latches else "register of fields"
    copies = machine.instances(memory.scope)
    return f"{memory.kind} {scaled(memory.bytes, 'B')}{banks}" + (f", x {copies}" if copies > 1 else "")


def _count(machine: Machine, name: str) -> str:
    """`core, 8 in each of 4 clusters`."""
    place = next(number for number, level in enumerate(machine.levels) if level.name == name)
    level, above = machine.levels[place], machine.levels[:place]
    within = f" in each of {machine.instances(above[-1].name)} {above[-1].name}s" if above else ""
    return f"{name}, {level.count}{within}{', in lockstep' if level.lockstep else ''}"


def _unit_title(machine: Machine) -> str:
    lockstep = f", on {machine.lockstep} images" if machine.lockstep > 1 else ""
    return (f"units, in each of {machine.streams} streams" if machine.streams > 1 else "units") + lockstep


def _arrows(machine: Machine, blocks: Sequence[Block]) -> Iterator[Arrow]:
    at = {(block.role, block.name): block for block in blocks}
    for unit in machine.units:
        own = at["unit", unit.name]
        for number, (write, names) in enumerate(((False, unit.reads), (True, unit.writes))):
            for name in dict.fromkeys(_memory(machine, name) for name in names):
                if ("memory", name) in at:
                    yield Arrow(unit.name, name, write, _arrow_path(own, at["memory", name], write, number))


def _memory(machine: Machine, name: str) -> str:
    """A unit may name a view of a memory."""
    return machine.view[name].memory if name in machine.view else name


def _arrow_path(unit: Block, memory: Block, write: bool, lane: int) -> str:
    """A curve between the sides that face each other; reads end above the middle of a block, writes below it."""
    left = memory.x < unit.x
    a, b = (unit.x, memory.x + BLOCK_WIDE) if left else (unit.x + BLOCK_WIDE, memory.x)
    shift = BLOCK_TALL // 3 + lane * BLOCK_TALL // 3
    ends = [(a, unit.y + shift), (b, memory.y + shift)]
    (x1, y1), (x2, y2) = ends if write else ends[::-1]
    tip = x2 + (5 if x2 < x1 else -5)  # the arrow's head has its own length
    middle = (x1 + x2) // 2
    return f"M{x1} {y1}C{middle} {y1} {middle} {y2} {tip} {y2}"


def rate_text(resource: Resource, clock_khz: int) -> str:
    """`64 bytes a cycle, 19.2 GB/s`."""
    every = "a cycle" if resource.per == 1 else f"in {resource.per} cycles"
    return f"{resource.bytes_per_cycle} bytes {every}, {scaled(resource.bytes_per_cycle / resource.per * clock_khz * 1000, 'B/s')}"
