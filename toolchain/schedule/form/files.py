"""Schedules as YAML: written, the same text for the same schedule; read, as a user may have written it; in a file for one region, or a
folder with one file for each."""

import re
from collections.abc import Iterator, Mapping
from itertools import repeat
from pathlib import Path
from typing import cast

import yaml

from toolchain.schedule.copies import ONE, Copies
from toolchain.schedule.form.plan import VERSION, ChipBuffer, Cut, Group, GroupLoad, Schedule, ScheduledOperation, Share, Slots
from toolchain.schedule.kernels.pools import Pool, Slot
from toolchain.schedule.placement.shared_memory import fetched_name
from toolchain.spec.errors import Source, UserError, fail
from toolchain.spec.files import PACKAGE, read_limited
from toolchain.spec.schema import validate
from toolchain.spec.yaml_nodes import MAX_BYTES, Node, parse_yaml

SCHEDULE_SCHEMA = PACKAGE / "schemas" / "schedule.schema.json"

HEAD = "# How the region runs: tiles, slots, buffers and order. Edit a copy, and build with schedule=COPY.\n"
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*\Z")
_WORDS = ("true", "false", "null")
RING = ("pitch", "lines", "overlap", "late")
"""Keys of a ring of rows, each left out where it is 0."""

SUFFIX = ".yaml"


def read_schedule(source: Source) -> Schedule:
    """Raises UserError E0101.. for the YAML, E0108, E0109 and E0116 for its form, E1401 for another version of it."""
    root = parse_yaml(source)
    validate(root, SCHEDULE_SCHEMA)
    head = root.value["schedule"]
    version = head.value["version"]
    if version.value != VERSION:
        raise fail("E1401", f"the schedule's version is {version.value}, this program reads {VERSION}", version.span, "build the model again")
    groups = tuple(map(_group, root.entries("groups"), repeat(_fetch_numbers(root))))
    buffers = tuple(map(_buffer, root.entries("buffers")))
    region, machine, config, fingerprint = (head.text(key) for key in ("region", "machine", "config", "fingerprint"))
    barriers, multicast = ((node := head.get(key)) is not None and bool(node.value) for key in ("barriers", "multicast"))
    copies = head.get("copies")
    own = Copies(**{key: int(node.value) for key, node in copies.items()}) if copies else ONE
    return Schedule(region, machine, config, fingerprint, buffers, groups, root, barriers, multicast, own)


def _fetch_numbers(root: Node) -> dict[str, int]:
    """The inputs that are fetched, and the indices of the operations that do it: before all others, in the order of the file."""
    names = (operation.text("fetches") for group in root.entries("groups") for operation in group.entries("operations"))
    return {name: number for number, name in enumerate(dict.fromkeys(filter(None, names)))}


def _group(node: Node, fetches: Mapping[str, int]) -> Group:
    ahead = node.get("ahead")
    operations = tuple(map(_operation, node.entries("operations"), repeat(fetches)))
    loads, streams = tuple(map(_load, node.entries("loads"))), tuple(Share(*_numbers(entry)) for entry in node.entries("streams"))
    return Group(operations, int(ahead.value) if ahead else 0, loads, node.text("loop") == "tiles", streams)


def _numbers(node: Node) -> tuple[int, ...]:
    return tuple(int(each.value) for each in node.children())


def _load(node: Node) -> GroupLoad:
    return GroupLoad(_buffer(node), node.number("rows"))


def _buffer(node: Node) -> ChipBuffer:
    stored = node.get("stored")
    slot = Slot(node.number("bank"), node.number("address"))
    ring = (node.number(key) for key in RING)
    return ChipBuffer(node.text("tensor"), node.text("memory"), slot, stored is None or bool(stored.value), *ring)


def _operation(node: Node, fetches: Mapping[str, int]) -> ScheduledOperation:
    fetched = node.text("fetches")
    return ScheduledOperation(
        fetches[fetched] if fetched else node.number("operation") + len(fetches),
        fetched_name(fetched) if fetched else node.text("name"),
        node.text("kernel"),
        tuple(Cut(dimension, int(size.value)) for dimension, size in node.members("tile")),
        {place: _slots(value) for place, value in node.members("slots")},
        {memory: tuple(map(_stretch, stretches.children())) for memory, stretches in node.members("within")},
        fetched,
        {tensor: _pair(room) for tensor, room in node.members("near")},
        tuple(str(name.value) for name in node.entries("backward")),
    )


def _pair(node: Node) -> tuple[int, int]:
    first, second = _numbers(node)
    return first, second


def _slots(node: Node) -> Slots:
    return tuple(Slot(*_numbers(pair)) for pair in node.children()) if isinstance(node.value, list) else int(node.value)


def _stretch(node: Node) -> Pool:
    return Pool(node.number("bank"), node.number("depth"), node.number("start"))


def write_schedule(schedule: Schedule) -> str:
    """Text that `read_schedule` reads back."""
    return HEAD + "".join(f"{line}\n" for line in _lines(schedule))


def _lines(schedule: Schedule) -> Iterator[str]:
    config = {"config": schedule.config} if schedule.config else {}
    head = {"version": VERSION, "region": schedule.region, "machine": schedule.machine, **config, "fingerprint": schedule.fingerprint}
    copies = {"copies": _copies(schedule.copies)} if schedule.copies != ONE else {}
    ways = {name: True for name, chosen in (("barriers", schedule.barriers), ("multicast", schedule.multicast)) if chosen}
    yield f"schedule: {_flow(head | ways | copies)}"
    yield "buffers:" if schedule.buffers else "buffers: []"
    yield from (f"  - {_buffer_lines(buffer)}" for buffer in schedule.buffers)
    yield "groups:"
    for group in schedule.groups:
        head = ([f"ahead: {group.ahead}"] if group.ahead else []) + (["loop: tiles"] if group.tiles else [])
        head += [f"streams: {_flow([list(share) for share in group.streams])}"] if group.streams else []
        head += ["loads:", *(f"  - {_flow(_on_chip(load.buffer) | {'rows': load.rows})}" for load in group.loads)] if group.loads else []
        yield from (f"  {' ' if number else '-'} {line}" for number, line in enumerate([*head, "operations:"]))
        for operation in group.operations:
            yield from _operation_lines(operation, len(schedule.fetches))


def _copies(copies: Copies) -> dict[str, object]:
    more = {"images": copies.images} if copies.images > 1 else {}
    return {"times": copies.times, "streams": copies.streams, **more, **({"weights": copies.weights} if copies.weights else {})}


def _buffer_lines(buffer: ChipBuffer) -> str:
    return _flow(_on_chip(buffer) | {"stored": buffer.stored})


def _on_chip(buffer: ChipBuffer) -> dict[str, object]:
    bank, address = buffer.slot
    ring = {key: value for key, value in zip(RING, (buffer.pitch, *buffer.rounds), strict=True) if value}
    return {"tensor": buffer.tensor, "memory": buffer.memory, "bank": bank, "address": address, **ring}


def _operation_lines(operation: ScheduledOperation, fetches: int) -> Iterator[str]:
    """fetches: how many operations of the schedule copy inputs; the file counts the others without them."""
    own: dict[str, object] = {"operation": operation.operation - fetches, "name": operation.name}
    parts: dict[str, object] = {"fetches": operation.fetches} if operation.fetches else own
    parts |= {"kernel": operation.kernel, "tile": dict(operation.tile)}
    if operation.backward:
        parts["backward"] = list(operation.backward)
    if operation.slots:
        parts["slots"] = {place: _slots_text(slots) for place, slots in operation.slots.items()}
    if operation.within:
        parts["within"] = {memory: list(map(_stretch_text, pools)) for memory, pools in operation.within.items()}
    if operation.near:
        parts["near"] = {tensor: list(room) for tensor, room in operation.near.items()}
    for number, (key, value) in enumerate(parts.items()):
        yield f"      {'-' if number == 0 else ' '} {key}: {_flow(value)}"


def _slots_text(slots: Slots) -> int | list[list[int]]:
    return slots if isinstance(slots, int) else [list(slot) for slot in slots]


def _stretch_text(pool: Pool) -> dict[str, int]:
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


def schedule_files(path: Path) -> list[Path]:
    """The file itself, or the YAML files of a folder by name. Raises UserError E0001 where there is none."""
    found = sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path] if path.is_file() else []
    if not found:
        what = f"there is no {SUFFIX} file in this folder" if path.is_dir() else "there is no such file"
        raise fail("E0001", what, hint="schedule= takes the file of a region's schedule, or a folder of such files", place=str(path))
    return found


def read_schedules(path: Path) -> dict[str, Schedule]:
    """By region. Raises UserError E0001, E1409 for two schedules of one region, and all of `read_schedule`."""
    found: dict[str, Schedule] = {}
    for file in schedule_files(path):
        schedule = read_schedule_file(file)
        if schedule.region in found:
            raise schedule.error("E1409", f"another file of this folder is the schedule of '{schedule.region[:80]}' too", ("schedule", "region"))
        found[schedule.region] = schedule
    return found


def read_schedule_file(path: Path) -> Schedule:
    """Raises UserError E0001 for a file that cannot be read, and all of `read_schedule`."""
    try:
        text = read_limited(path, MAX_BYTES, "the schedule").decode()
    except UnicodeDecodeError as error:
        raise fail("E0001", f"the schedule is not UTF-8 text at byte {error.start:#x}", place=str(path)) from None
    return read_schedule(Source(str(path), text))


def check_regions(found: dict[str, Schedule], regions: list[str]) -> None:
    """Raises UserError E1409 for schedules of regions that the model does not have."""
    faults = [
        schedule.fault("E1409", f"the model has no region '{name[:80]}'", ("schedule", "region"), f"known: {', '.join(regions)}" if regions else "")
        for name, schedule in found.items()
        if name not in regions
    ]
    if faults:
        raise UserError(*faults)
