"""A schedule out of YAML that a user may have written."""

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
    buffers = tuple(map(_buffer, root.entries("buffers")))
    region, machine, config, fingerprint = (head.text(key) for key in ("region", "machine", "config", "fingerprint"))
    barriers, multicast = ((node := head.get(key)) is not None and bool(node.value) for key in ("barriers", "multicast"))
    copies = head.get("copies")
    own = Copies(**{key: int(node.value) for key, node in copies.items()}) if copies else ONE
    return Schedule(region, machine, config, fingerprint, buffers, groups, root, barriers, multicast, own)


def _group(node: Node) -> Group:
    ahead = node.get("ahead")
    operations = tuple(map(_operation, node.entries("operations")))
    loads, streams = tuple(map(_load, node.entries("loads"))), tuple(Share(*_numbers(entry)) for entry in node.entries("streams"))
    return Group(operations, int(ahead.value) if ahead else 0, loads, node.text("loop") == "tiles", streams)


def _numbers(node: Node) -> tuple[int, ...]:
    return tuple(int(each.value) for each in node.children())


def _load(node: Node) -> GroupLoad:
    return GroupLoad(_buffer(node), node.number("rows"))


def _buffer(node: Node) -> ChipBuffer:
    stored = node.get("stored")
    slot = Slot(node.number("bank"), node.number("address"))
    return ChipBuffer(
        node.text("tensor"), node.text("memory"), slot, stored is None or bool(stored.value), node.number("pitch"), node.number("lines")
    )


def _operation(node: Node) -> ScheduledOperation:
    return ScheduledOperation(
        node.number("operation"),
        node.text("name"),
        node.text("kernel"),
        tuple(Cut(dimension, int(size.value)) for dimension, size in node.members("tile")),
        {place: _slots(value) for place, value in node.members("slots")},
        {memory: tuple(map(_stretch, stretches.children())) for memory, stretches in node.members("within")},
    )


def _slots(node: Node) -> Slots:
    return tuple(Slot(*_numbers(pair)) for pair in node.children()) if isinstance(node.value, list) else int(node.value)


def _stretch(node: Node) -> Pool:
    return Pool(node.number("bank"), node.number("depth"), node.number("start"))
