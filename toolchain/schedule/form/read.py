"""A schedule out of YAML that a user may have written."""

from typing import Any

from toolchain.schedule.copies import ONE, Copies
from toolchain.schedule.form.schedule import VERSION, ChipBuffer, Cut, Group, GroupLoad, Schedule, ScheduledOperation, Share, Slots
from toolchain.schedule.kernels.pools import Pool, Slot
from toolchain.spec.errors import Source, fail
from toolchain.spec.files import PACKAGE
from toolchain.spec.schema import validate
from toolchain.spec.yaml_nodes import Node, parse_yaml

SCHEDULE_SCHEMA = PACKAGE / "schemas" / "schedule.schema.json"


def read_schedule(source: Source) -> Schedule:
    """Raises UserError E0101.. for the YAML, E0108, E0109 and E0116 for its form, E1401 for another version of it."""
    root = parse_yaml(source)
    validate(root, SCHEDULE_SCHEMA)
    head = root.value["schedule"]
    version = head.value["version"]
    if version.value != VERSION:
        raise fail("E1401", f"the schedule's version is {version.value}, this program reads {VERSION}", version.span, "build the model again")
    groups = tuple(map(_group, root.entries("groups")))
    buffers = tuple(_buffer(node.plain()) for node in root.entries("buffers"))
    region, machine, config, fingerprint = (head.text(key) for key in ("region", "machine", "config", "fingerprint"))
    barriers, copies = head.get("barriers"), head.get("copies")
    own = Copies(**{key: int(value) for key, value in copies.plain().items()}) if copies else ONE
    return Schedule(region, machine, config, fingerprint, buffers, groups, root, barriers is not None and bool(barriers.value), own)


def _group(node: Node) -> Group:
    ahead = node.get("ahead")
    operations = tuple(map(_operation, node.entries("operations")))
    loads, streams = tuple(map(_load, node.entries("loads"))), tuple(Share(*map(int, entry.plain())) for entry in node.entries("streams"))
    return Group(operations, int(ahead.value) if ahead else 0, loads, node.text("loop") == "tiles", streams)


def _load(node: Node) -> GroupLoad:
    held: dict[str, Any] = node.plain()
    return GroupLoad(_buffer(held), int(held["rows"]))


def _buffer(held: dict[str, Any]) -> ChipBuffer:
    return ChipBuffer(
        held["tensor"],
        held["memory"],
        Slot(int(held["bank"]), int(held["address"])),
        held.get("stored", True),
        int(held.get("pitch", 0)),
        int(held.get("lines", 0)),
    )


def _operation(node: Node) -> ScheduledOperation:
    held: dict[str, Any] = node.plain()
    return ScheduledOperation(
        int(held["operation"]),
        held["name"],
        held["kernel"],
        tuple(Cut(dimension, int(size)) for dimension, size in held["tile"].items()),
        {place: _slots(value) for place, value in held.get("slots", {}).items()},
        {memory: tuple(map(_stretch, stretches)) for memory, stretches in held.get("within", {}).items()},
    )


def _slots(value: int | list[list[int]]) -> Slots:
    return tuple(Slot(int(bank), int(address)) for bank, address in value) if isinstance(value, list) else int(value)


def _stretch(held: dict[str, Any]) -> Pool:
    return Pool(int(held["bank"]), int(held["depth"]), int(held["start"]))
