"""Sections topology, types, memories, units, and views (other shapes of a memory's bytes)."""

from collections.abc import Mapping
from dataclasses import replace

from toolchain.spec.context import Context, Scope, problems
from toolchain.spec.errors import UserError, fail
from toolchain.spec.model import ElementType, FloatType, Level, Memory, Ports, RecordField, ScalarType, Unit, View
from toolchain.spec.model.types import STORED_BITS, parse_element, parse_scalar
from toolchain.spec.sections.layouts import read_map
from toolchain.spec.yaml_nodes import Node, gather

MAX_INSTANCES = 1 << 16
MAX_BANKS = 1 << 12
MAX_BYTES = 1 << 44
MAX_REGISTERS = 1 << 15
"""Registers of one name in one instance; with MAX_INSTANCES they still have 31-bit numbers."""


def number_in(context: Context, node: Node, low: int, high: int, what: str, more: Mapping[str, int] | None = None) -> int:
    """A constant that must be between low and high, else UserError E0139."""
    value = context.number(node, more)
    if not low <= value <= high:
        raise fail("E0139", f"{what} cannot be {value}; it is {low}..{high}", node.span)
    return value


def levels(context: Context) -> tuple[Level, ...]:
    """Raises UserError E0139 for more instances than MAX_INSTANCES, E0138 for a second level with streams."""
    found: list[Level] = []
    total = 1
    for name, node in context.root.members("topology"):
        count = number_in(context, node.value["count"], 1, MAX_INSTANCES // total, "the number of instances")
        if node.flag("streams") and (other := next((level.name for level in found if level.streams), "")):
            raise fail("E0138", f"level '{other}' has the streams already", node.value["streams"].span, "one level has one program an instance")
        found.append(Level(name, count, node.flag("lockstep"), node.flag("streams")))
        total *= count
    return tuple(found)


def types(context: Context) -> dict[str, ElementType]:
    """Raises UserError E0110 for a text that is no type, E0111 for a record whose fields do not fit."""
    members = context.root.members("types")
    made = gather(lambda item: _record(context, item[1]) if isinstance(item[1].value, dict) else element(context, item[1], {}), members)
    return {name: kind for (name, _), kind in zip(members, made, strict=True)}


def _record(context: Context, node: Node) -> ElementType:
    bits = context.number(node.value["bits"])
    if bits not in STORED_BITS:
        raise fail("E0110", f"a record has 8, 16, 32 or 64 bits, not {bits}", node.value["bits"].span)
    fields: list[RecordField] = []
    lsb = 0
    for name, kind in node.items():
        if name != "bits":
            scalar = parse_scalar(kind.value, context.names, kind.locate, stored=False)
            fields.append(RecordField(name, lsb, scalar))
            lsb += scalar.bits
            if lsb > bits:
                raise fail("E0111", f"'{name}' needs bits {lsb - scalar.bits}..{lsb - 1}, the record has {bits}", kind.where())
    return ElementType(ScalarType(False, bits), (), tuple(fields))


def element(context: Context, node: Node, known: Mapping[str, ElementType]) -> ElementType:
    """A declared type by name, or a type text."""
    if node.value in known:
        return known[node.value]
    return parse_element(str(node.value), context.names, node.locate, known)


def present(context: Context, node: Node) -> bool:
    """Whether this configuration has the memory at all."""
    return bool(context.number(condition)) if (condition := node.get("present")) else True


def absent(context: Context) -> frozenset[str]:
    """Memories that this configuration lacks."""
    return frozenset(name for name, node in context.root.members("memories") if not present(context, node))


def memories(context: Context, known: Mapping[str, ElementType]) -> tuple[Memory, ...]:
    """Raises UserError E0109 for a memory without type or depth, E0137 for register keys elsewhere, E0139 for sizes."""
    there = [item for item in context.root.members("memories") if present(context, item[1])]
    return tuple(gather(lambda item: _memory(context, *item, known), there))


def _memory(context: Context, name: str, node: Node, known: Mapping[str, ElementType]) -> Memory:
    _check_kind(name, node)
    kind = node.get("type")
    memory = Memory(
        name, node.text("kind"), element(context, kind, known) if kind else ElementType(ScalarType(True, 64)), _depths(context, node),
        scope=node.text("scope", "device"), control=node.flag("control"), latches=latches(node), zeroed=node.flag("zeroed"), host=node.flag("host"),
        names=names(node, "names"), consumed=node.flag("consumed"), overflow=node.text("overflow", "error"),
        hazard=node.text("hazard", "error"), transient=node.flag("transient"), ports=_ports(context, node), doc=node.text("doc"), span=node.key_span,
        granule=context.number(n) if (n := node.get("granule")) else 0,
    )  # fmt: skip
    if kind and memory.kind == "register" and isinstance(memory.element.scalar, FloatType):
        raise fail("E0110", "a register holds integers", kind.where(), "semantics read their bits: from_bits(x, f32)")
    return _sized(memory, node)


def latches(node: Node) -> tuple[str, ...]:
    """The instructions whose fields a register holds: one name, or a list."""
    found = node.get("latches")
    return () if found is None else names(node, "latches") if isinstance(found.value, list) else (str(found.value),)


def _ports(context: Context, node: Node) -> Ports | None:
    """Ports of each bank, None where none is limited."""
    counts = {kind: number_in(context, n, 0, MAX_BANKS, "the number of ports") for kind, n in node.members("ports") if kind != "priority"}
    return Ports(**counts, priority=names(node.value["ports"], "priority")) if any(counts.values()) else None


def _depths(context: Context, node: Node) -> tuple[int, ...]:
    banks = number_in(context, n, 1, MAX_BANKS, "the number of banks") if (n := node.get("banks")) else 1
    depth, most = node.get("depth"), MAX_REGISTERS if node.text("kind") == "register" else MAX_BYTES
    return tuple(number_in(context, depth, 1, most, "a depth", {"bank": b}) if depth else 1 for b in range(banks))


def _check_kind(name: str, node: Node) -> None:
    if node.text("kind") == "register":
        if found := node.get("ports"):
            raise fail("E0137", f"'{name}' is a register, which all units reach in every cycle", found.where(), "only other memories have ports")
        if node.get("latches") and node.flag("host"):
            raise fail("E0137", f"'{name}' both latches an instruction and is set by the host", node.where(), "choose one")
        return
    for key in ("latches", "host", "consumed", "names"):
        if found := node.get(key):
            raise fail("E0137", f"only a register can have '{key}'", found.where())
    for key in ("type", "depth"):
        if node.get(key) is None:
            raise fail("E0109", f"missing key '{key}' in memories.{name}", node.where())


def _sized(memory: Memory, node: Node) -> Memory:
    """The memory with its granule, after a look at all sizes."""
    size = memory.element.bytes
    granule = memory.granule or size
    if memory.bytes > MAX_BYTES:
        raise fail("E0139", f"'{memory.name}' has {memory.bytes} bytes, more than {MAX_BYTES}", node.where())
    if granule < 1 or any(depth * size % granule for depth in memory.depths):
        raise fail("E0139", f"a granule of {granule} bytes does not divide the banks of '{memory.name}'", node.value["granule"].span)
    if len(memory.names) > memory.elements:
        raise fail("E0139", f"{len(memory.names)} names for {memory.elements} registers", node.value["names"].span)
    return replace(memory, granule=granule)


def units(context: Context) -> tuple[Unit, ...]:
    """Ports to memories that this configuration lacks are left out. Raises UserError E0139 for the depth of a queue."""
    gone = absent(context)
    return tuple(gather(lambda item: _unit(context, *item, gone), context.root.members("units")))


def _unit(context: Context, name: str, node: Node, gone: frozenset[str]) -> Unit:
    reads, writes = (tuple(m for m in names(node, key) if m not in gone) for key in ("reads", "writes"))
    depth = (number_in(context, n, 0, 1 << 32, "the depth of a queue") or None) if (n := node.get("depth")) else None
    return Unit(name, reads, writes, depth, node.flag("overlaps"), node.text("doc"))


def names(node: Node, key: str) -> tuple[str, ...]:
    """The texts of the list at `key`."""
    return tuple(n.value for n in node.entries(key))


__all__ = ["absent", "element", "levels", "memories", "names", "number_in", "present", "types", "units"]


def views(context: Context, known: Mapping[str, ElementType], memories: tuple[Memory, ...]) -> tuple[View, ...]:
    """Every memory's own view, then the declared ones. Raises UserError E0107, E0112 (see `_offsets`), E0139."""
    own = [View(m.name, m.name, m.element, 0 if m.banks > 1 else m.element.bytes, m.element.row_major) for m in memories if m.kind != "register"]
    gone = absent(context)
    wanted = [item for item in context.root.members("views") if item[0].partition(".")[0] not in gone]
    return (*own, *gather(lambda item: _view(context, *item, known, memories), wanted))


def _view(context: Context, name: str, node: Node, known: Mapping[str, ElementType], memories: tuple[Memory, ...]) -> View:
    base = name.partition(".")[0]
    memory = next((m for m in memories if m.name == base), None)
    if memory is None:
        raise fail("E0107", f"unknown memory '{base}'", node.key_span, context.near(base, [m.name for m in memories]))
    if memory.kind == "register":
        raise fail("E0137", f"'{base}' is a register, which has no views", node.key_span)
    kind = element(context, node.value["type"], known)
    if kind.bytes % memory.granule or kind.bytes > memory.bytes:
        text = f"an element of {kind.bytes} bytes is not a multiple of the {memory.granule} bytes that '{base}' moves at least, or does not fit it"
        raise fail("E0139", text, node.value["type"].span)
    bytes_of = kind.bytes if memory.kind == "dram" else memory.element.bytes
    unit = node.get("unit")
    step = number_in(context, unit, 1, memory.bytes, "the unit") if unit else 0 if memory.banks > 1 else bytes_of
    offsets = _offsets(context, node.value["map"], kind) if node.get("map") else kind.row_major
    return View(name, memory.name, kind, step, offsets, node.text("doc"))


def _offsets(context: Context, node: Node, element: ElementType) -> tuple[int, ...]:
    """`o c -> EXPR`: the byte of every lane. Raises UserError E0112 unless each stored scalar has exactly one lane."""
    import numpy as np  # only where a machine rearranges lanes

    from toolchain.spec.arrays import evaluate_arrays

    names, body = read_map(node)
    if len(body) != 1:
        raise fail("E0112", f"a view's map gives one number, not {len(body)}", node.span)
    if len(names) != len(element.dims):
        raise fail("E0112", f"the map names {len(names)} lanes, the type has {len(element.dims)}", node.span)
    lanes = dict(zip(names, (part.ravel() for part in np.indices(element.dims, dtype=np.int64)), strict=True))
    expr = context.resolve(body[0])
    found = list(problems(expr, Scope(frozenset(names))))
    if found:
        raise UserError(*found)
    step = element.scalar.bits // 8
    offsets = tuple(int(place) * step for place in evaluate_arrays(expr, lanes))
    if sorted(offsets) != list(range(0, element.bytes, step)):
        raise fail("E0112", "the map does not give every stored element exactly one source", node.span)
    return offsets
