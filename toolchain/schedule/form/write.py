"""A schedule as YAML: a few lines for each operation, the same text for the same schedule."""

import re
from collections.abc import Iterator
from typing import cast

import yaml

from toolchain.schedule.form.schedule import VERSION, ChipBuffer, Schedule, ScheduledOperation, Slots
from toolchain.schedule.kernels.pools import Pool

HEAD = "# How the region runs: tiles, slots, buffers and order. Edit a copy, and build with schedule=COPY.\n"
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*\Z")
_WORDS = ("true", "false", "null")


def write_schedule(schedule: Schedule) -> str:
    """Text that `read_schedule` reads back."""
    return HEAD + "".join(f"{line}\n" for line in _lines(schedule))


def _lines(schedule: Schedule) -> Iterator[str]:
    config = {"config": schedule.config} if schedule.config else {}
    head = {"version": VERSION, "region": schedule.region, "machine": schedule.machine, **config, "fingerprint": schedule.fingerprint}
    copies = {"copies": dict(schedule.copies._asdict())} if schedule.copies.times > 1 else {}
    ways = {name: True for name, chosen in (("barriers", schedule.barriers), ("multicast", schedule.multicast)) if chosen}
    yield f"schedule: {_flow(head | ways | copies)}"
    yield "buffers:" if schedule.buffers else "buffers: []"
    yield from (f"  - {_buffer(buffer)}" for buffer in schedule.buffers)
    yield "groups:"
    for group in schedule.groups:
        head = ([f"ahead: {group.ahead}"] if group.ahead else []) + (["loop: tiles"] if group.tiles else [])
        head += [f"streams: {_flow([list(share) for share in group.streams])}"] if group.streams else []
        head += ["loads:", *(f"  - {_flow(_on_chip(load.buffer) | {'rows': load.rows})}" for load in group.loads)] if group.loads else []
        yield from (f"  {' ' if number else '-'} {line}" for number, line in enumerate([*head, "operations:"]))
        for operation in group.operations:
            yield from _operation(operation)


def _buffer(buffer: ChipBuffer) -> str:
    return _flow(_on_chip(buffer) | {"stored": buffer.stored})


def _on_chip(buffer: ChipBuffer) -> dict[str, object]:
    bank, address = buffer.slot
    ring = {key: value for key, value in (("pitch", buffer.pitch), ("lines", buffer.lines)) if value}
    return {"tensor": buffer.tensor, "memory": buffer.memory, "bank": bank, "address": address, **ring}


def _operation(operation: ScheduledOperation) -> Iterator[str]:
    parts: dict[str, object] = {"operation": operation.operation, "name": operation.name, "kernel": operation.kernel}
    parts["tile"] = dict(operation.tile)
    if operation.slots:
        parts["slots"] = {place: _slots(slots) for place, slots in operation.slots.items()}
    if operation.within:
        parts["within"] = {memory: list(map(_stretch, pools)) for memory, pools in operation.within.items()}
    for number, (key, value) in enumerate(parts.items()):
        yield f"      {'-' if number == 0 else ' '} {key}: {_flow(value)}"


def _slots(slots: Slots) -> int | list[list[int]]:
    return slots if isinstance(slots, int) else [list(slot) for slot in slots]


def _stretch(pool: Pool) -> dict[str, int]:
    return {"bank": pool.bank, "start": pool.start, "depth": pool.depth}


def _flow(value: object) -> str:
    """A value on one line."""
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        return "{" + ", ".join(f"{_text(key)}: {_flow(item)}" for key, item in members.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, cast("list[object]", value))) + "]"
    if isinstance(value, str):
        return _text(value)
    return str(value).lower()


def _text(text: str) -> str:
    """A plain word as it is; whatever else in double quotes, as YAML escapes it."""
    if _PLAIN.match(text) and text not in _WORDS:
        return text
    dumped: str = yaml.safe_dump(text, default_style='"', allow_unicode=True, width=1 << 30)
    return dumped.removesuffix("\n")
