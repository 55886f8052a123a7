"""Section sync: counters, the fields that wait and post, each unit's idle instruction, the orders that the hardware keeps by itself, and
units that run coupled.

A coupled unit starts while the other one is at work, and reads its results as they come.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from toolchain.spec.context import Context
from toolchain.spec.errors import UserError, fail, nearest
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Binary, Const, Expr, Name
from toolchain.spec.model import Counter, Field, Illegal, Instruction, Interlock, Memory, Nop, SyncRule, Unit, Watch
from toolchain.spec.sections.storage import absent, number_in
from toolchain.spec.yaml_nodes import Findings, Node


def one_of(what: str, node: Node, known: Collection[str]) -> str:
    """The name that a scalar holds. Raises UserError E0107 for one that is not known."""
    if node.value not in known:
        raise fail("E0107", f"unknown {what} '{node.value}'", node.span, nearest(str(node.value), known))
    return str(node.value)


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


MAX_COUNTERS = 1 << 16
MAX_PAIRED = 64
Sync = tuple[tuple[Counter, ...], tuple[SyncRule, ...], tuple[Illegal, ...]]


@dataclass(frozen=True)
class _Known:
    """The names that rules may use."""

    units: tuple[str, ...]
    instructions: Sequence[Instruction]
    counters: Collection[str]

    def carriers(self, field: str) -> tuple[str, ...]:
        return tuple(i.name for i in self.instructions if any(f.name == field for f in i.fields))


def sync(context: Context, units: Sequence[Unit], instructions: Sequence[Instruction]) -> Sync:
    """Counters of pairs are named `name.source.target`.

    Raises UserError E0107 for an unknown unit or instruction, E0115 for an unknown counter, E0131 for a field that no
    instruction has, E0132 for a mask longer than its field, E0139 for sizes.
    """
    node = context.root.get("sync")
    if node is None:
        return (), (), ()
    names = tuple(u.name for u in units)
    findings = Findings()
    counters = [c for item in node.members("counters") for c in findings.attempt([], lambda item=item: _counters(context, *item, names))]
    findings.settle()
    known = _Known(names, instructions, {c.name for c in counters})
    rules: list[SyncRule] = []
    illegal: list[Illegal] = []
    for kind, section in (("wait", "waits"), ("post", "posts")):
        for name, item in node.members(section):
            findings.attempt(None, lambda kind=kind, name=name, item=item: _carrier(kind, name, item, known, rules, illegal))
    for item in node.entries("rules"):
        findings.attempt(None, lambda item=item: rules.append(_rule(context, item, known)))
    findings.settle()
    return tuple(counters), tuple(rules), tuple(illegal)


def _counters(context: Context, name: str, node: Node, units: Collection[str]) -> list[Counter]:
    def number(key: str, default: int, low: int, high: int) -> int:
        item = node.get(key)
        return number_in(context, item, low, high, f"the {key} of a counter") if item else default

    depth = None if node.text("depth", "unbounded") == "unbounded" else number("depth", 0, 0, 1 << 40) or None
    initial = number("initial", 0, 0, 1 << 40 if depth is None else depth)
    shape = (depth, initial, number("count", 1, 1, MAX_COUNTERS), node.text("scope", "device"), node.text("mode", "counting"), node.text("doc"))
    for end in [*node.entries("pairs"), *(n for key in ("from", "to") if (n := node.get(key)))]:
        one_of("unit", end, units)
    if node.get("pairs") is None:
        return [Counter(name, node.text("from"), node.text("to"), *shape, stops=node.flag("stops"))]
    ends = [n.value for n in node.entries("pairs")]
    if len(ends) > MAX_PAIRED:
        raise fail("E0139", f"pairs of {len(ends)} units are more than those of {MAX_PAIRED}", node.value["pairs"].span)
    return [Counter(f"{name}.{a}.{b}", a, b, *shape) for a in ends for b in ends]


def _carrier(kind: str, field: str, node: Node, known: _Known, rules: list[SyncRule], illegal: list[Illegal]) -> None:
    carriers = known.carriers(field)
    if not carriers:
        names = {f.name for i in known.instructions for f in i.fields}
        raise fail("E0131", f"no instruction has a field '{field}'", node.where(), nearest(field, names))
    if node.get("mask"):
        rules += _mask(kind, field, node, known, carriers)
        return
    for unit, counter in node.items():
        if unit not in known.units:
            raise fail("E0107", f"unknown unit '{unit}'", counter.key_span, nearest(unit, known.units))
        _expect_counter(counter, known)
        rules.append(SyncRule(kind, counter.value, Name(field), Const(0), Const(1), (unit,), carriers))
    illegal += [Illegal(field, 0, unit) for unit in known.units if unit not in node.value]


def _expect_counter(node: Node, known: _Known) -> None:
    if node.value not in known.counters:
        raise unknown_counter(node, str(node.value), known.counters)


def unknown_counter(node: Node, name: str, known: Collection[str]) -> UserError:
    """E0115, with the nearest counter that exists."""
    return fail("E0115", f"no counter '{name}'", node.span, nearest(name, known))


def _mask(kind: str, field: str, node: Node, known: _Known, carriers: tuple[str, ...]) -> list[SyncRule]:
    """Bit i of the field stands for the unit named i-th; the pair runs from producer to consumer."""
    counter = node.value["counter"]
    entries = node.entries("mask")
    width = min(f.bits for i in known.instructions for f in i.fields if f.name == field)
    if len(entries) > width:
        raise fail("E0132", f"the mask names {len(entries)} units, the field '{field}' has {width} bits", entries[width].span)
    rules: list[SyncRule] = []
    for bit, entry in enumerate(entries):
        one_of("unit", entry, known.units)
        when: Expr = Binary("&", Binary(">>", Name(field), Const(bit)), Const(1))
        for unit in known.units:
            source, target = (entry.value, unit) if kind == "wait" else (unit, entry.value)
            name = f"{counter.value}.{source}.{target}"
            if name not in known.counters:
                raise unknown_counter(counter, name, known.counters)
            rules.append(SyncRule(kind, name, when, Const(0), Const(1), (unit,), carriers))
    return rules


def _rule(context: Context, node: Node, known: _Known) -> SyncRule:
    kind = "wait" if node.get("wait") else "post"
    _expect_counter(node.value[kind], known)
    names = [i.name for i in known.instructions]
    chosen = node.entries("instructions")
    for entry in chosen:
        one_of("instruction", entry, names)
    return SyncRule(
        kind,
        node.text(kind),
        context.optional(node.get("when"), 1),
        context.optional(node.get("index")),
        context.optional(node.get("amount"), 1),
        known.units,
        tuple(n.value for n in chosen) if chosen else tuple(names),
        tuple((level, context.expr(mask)) for level, mask in node.members("over")),
    )


def check_coupled(pairs: Sequence[Watch], number: int, memories: Sequence[Memory], units: Sequence[Unit], node: Node) -> None:
    """Check that the interlock orders everything that two coupled units share. node: where the pair of that number is declared.

    Raises UserError E0146 with the reason why they cannot run so.
    """
    pair = pairs[number]
    if pair.lag is not None and (reason := next(_reasons(pairs, number, memories, {u.name: u for u in units}), "")):
        raise fail("E0146", f"units '{pair.source}' and '{pair.target}' cannot run coupled: {reason}", node.value["lag"].span)


def with_ports_of_guests(units: Sequence[Unit], instructions: Sequence[Instruction]) -> list[Unit]:
    """Units with the ports of all those that some instruction occupies beside its own: it may run on any of them."""
    lent = [unit for unit in units if any(unit.name in i.occupies for i in instructions)]
    reads, writes = [name for unit in lent for name in unit.reads], [name for unit in lent for name in unit.writes]
    return [replace(unit, reads=(*unit.reads, *reads), writes=(*unit.writes, *writes)) for unit in units]


def _reasons(pairs: Sequence[Watch], number: int, memories: Sequence[Memory], units: dict[str, Unit]) -> Iterator[str]:
    pair = pairs[number]
    source, target = units[pair.source], units[pair.target]
    if source is target:
        yield "they are one"
    yield from (f"neighbours in '{unit.name}' may overlap" for unit in (source, target) if unit.overlaps)
    yield from (f"'{target.name}' also writes '{name}'" for name in pair.memories if name in target.writes)
    same = [k for k, other in enumerate(pairs) if (other.source, other.target) == (pair.source, pair.target)]
    yield from ("they are coupled already" for k in same if k < number and pairs[k].lag is not None)
    watched = {name for k in same for name in pairs[k].memories}
    yield from (f"they share '{name}', which is not compared between them" for name in _shared(source, target, memories) if name not in watched)


def _shared(source: Unit, target: Unit, memories: Sequence[Memory]) -> Iterator[str]:
    """Memories on which they may meet; a latched register belongs to every unit."""
    for memory in memories:
        name, either = memory.name, (*target.reads, *target.writes)
        if memory.latches or _meets(name, source.writes, either) or _meets(name, source.reads, target.writes):
            yield name


def _meets(name: str, one: Collection[str], other: Collection[str]) -> bool:
    return name in one and name in other


MOST = 1 << 32
"""Instructions in a window, elements in a block."""
LIMITS = (("window", "a window"), ("looks_back", "a number of instructions"))


def interlock(context: Context, memories: Sequence[Memory], units: Sequence[Unit], instructions: Sequence[Instruction]) -> Interlock | None:
    """Memories that this configuration lacks are left out.

    Raises UserError E0107 for an unknown memory, unit or instruction, E0139 for a number below zero, E0146 for units that cannot run coupled.
    """
    sync = context.root.get("sync")
    node = sync.get("interlock") if sync else None
    if node is None:
        return None
    window, back = ((number_in(context, n, 0, MOST, what) or None) if (n := node.get(key)) else None for key, what in LIMITS)
    known, gone = [m.name for m in memories], absent(context)
    names = [u.name for u in units]
    looked = _listed(node, known, gone, tuple(known))
    pairs = list(_pairs(context, node, known, gone, names, looked)) or [Watch(a, b, looked) for a in names for b in names]
    for number, pair in enumerate(node.entries("pairs")):
        check_coupled(pairs, number, memories, with_ports_of_guests(units, instructions), pair)
    fences = tuple(one_of("instruction", entry, [i.name for i in instructions]) for entry in node.entries("fences"))
    return Interlock(tuple(pairs), window, back, tuple(_granularity(context, node, known, gone)), fences)


def _granularity(context: Context, node: Node, known: Collection[str], gone: Collection[str]) -> Iterator[tuple[str, int]]:
    for name, size in node.members("granularity"):
        if name not in known and name not in gone:
            raise fail("E0107", f"unknown memory '{name}'", size.key_span, nearest(name, known))
        if name in known:
            yield name, number_in(context, size, 0, MOST, "a granularity")


def _pairs(
    context: Context, node: Node, known: Collection[str], gone: Collection[str], units: Collection[str], looked: tuple[str, ...]
) -> Iterator[Watch]:
    for pair in node.entries("pairs"):
        source, target = (one_of("unit", pair.value[key], units) for key in ("from", "to"))
        lag = number_in(context, n, 0, MOST, "a lag") if (n := pair.get("lag")) else None
        yield Watch(source, target, _listed(pair, known, gone, looked), lag)


def _listed(node: Node, known: Collection[str], gone: Collection[str], otherwise: tuple[str, ...]) -> tuple[str, ...]:
    """The memories that a list names, of those that there are; `otherwise` where there is no list."""
    named = node.entries("memories")
    return tuple(one_of("memory", entry, known) for entry in named if entry.value not in gone) if named else otherwise
