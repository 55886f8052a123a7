"""Checks of a whole machine, after every section could be read.

Names mean one thing and refer to something that exists; expressions about instructions use only names that are visible there; every
counter has both ends; every bit of the encoding has one owner and every word one meaning.
"""

import itertools
import keyword
import math
from collections.abc import Collection, Iterator

from toolchain.spec.context import Scope, problems, scope_of
from toolchain.spec.errors import Diagnostic, Span, UserError, nearest
from toolchain.spec.evaluate import FUNCTIONS, RESERVED, constant
from toolchain.spec.expr import Choose, Expr, Name, walk
from toolchain.spec.model import Counter, Field, Instruction, Machine, SyncRule, TimingClass
from toolchain.spec.yaml_nodes import Findings, Node


def check_names(machine: Machine, root: Node) -> Iterator[Diagnostic]:
    """E0107 for references without a target, E0145 for a name with two meanings."""
    yield from _references(machine, root)
    yield from _taken(machine, root)


def _references(machine: Machine, root: Node) -> Iterator[Diagnostic]:
    scopes = {"device", *(level.name for level in machine.levels)}
    memories = {name for name, _ in root.members("memories")}
    units = {u.name for u in machine.units}
    for _, node in root.members("memories"):
        yield from _known("scope", node.get("scope"), scopes)
        if latches := node.get("latches"):
            for entry in latches.children() if isinstance(latches.value, list) else [latches]:
                yield from _known("instruction", entry, machine.instruction)
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


MAX_ROUTES = 1 << 8


def check_expressions(machine: Machine, root: Node) -> Iterator[Diagnostic]:
    """E0107 unknown names, E0123 arguments, E0129 routing outside the units, E0141 timing of a field that is not there."""
    places = frozenset(level.name for level in machine.levels)
    told: set[Span | None] = set()
    for instruction in machine.instructions:
        scope = scope_of(machine, instruction)
        for rule in instruction.constraints:
            yield from problems(rule.that, scope)
        yield from _routing(machine, instruction, scope, root)
        timing = [d for d in _timing(machine, instruction, root) if d.span not in told]
        told |= {d.span for d in timing}
        yield from timing
    for name, rule in machine.portable:
        yield from problems(rule.that, scope_of(machine, machine.instruction[name]))
    for rule in machine.sync:
        written = [part for part in rule.expressions if part.span]
        for name in rule.instructions if written else ():
            scope = scope_of(machine, machine.instruction[name], more=places)
            for part in written:
                yield from problems(part, scope)


def _routing(machine: Machine, instruction: Instruction, scope: Scope, root: Node) -> Iterator[Diagnostic]:
    units = [u.name for u in machine.units]
    loose = [leaf for leaf in _results(instruction.unit) if isinstance(leaf, Name) and leaf.id not in scope.names]
    yield from (Diagnostic("E0107", f"unknown unit '{leaf.id}'", leaf.span, nearest(leaf.id, units)) for leaf in loose)
    wrong = [d for d in problems(instruction.unit, scope) if all(d.span != leaf.span for leaf in loose)]
    yield from wrong
    if not wrong and not loose:
        yield from _routes(machine, instruction, root.at(("instructions", instruction.name, "unit")))


def _results(expr: Expr) -> Iterator[Expr]:
    """The possible results of a routing expression, conditions left out."""
    if isinstance(expr, Choose):
        yield from itertools.chain(_results(expr.then), _results(expr.other))
    else:
        yield expr


def _routes(machine: Machine, instruction: Instruction, node: Node) -> Iterator[Diagnostic]:
    used = [f for f in instruction.fields if any(isinstance(e, Name) and e.id == f.name for e in walk(instruction.unit))]
    if math.prod(1 << f.bits for f in used) > MAX_ROUTES:
        yield Diagnostic("E0129", f"routing over {sum(f.bits for f in used)} bits of fields cannot be checked", node.span)
        return
    for values in itertools.product(*(range(f.low, f.high + 1) for f in used)):
        given = {f.name: v for f, v in zip(used, values, strict=True)}
        if not _allowed(instruction, given):
            continue
        route = constant(instruction.unit, given)
        if not 0 <= route < len(machine.units):
            where = ", ".join(f"{name} = {value}" for name, value in given.items()) or "always"
            yield Diagnostic("E0129", f"the unit's number is {route} ({where}); there are {len(machine.units)} units", node.span)
            return


def _allowed(instruction: Instruction, given: dict[str, int]) -> bool:
    """Whether no constraint over just these fields forbids their values."""
    for rule in instruction.constraints:
        if {e.id for e in walk(rule.that) if isinstance(e, Name)} <= {*given, *FUNCTIONS}:
            try:
                if not constant(rule.that, given):
                    return False
            except UserError:
                continue
    return True


def _timing(machine: Machine, instruction: Instruction, root: Node) -> Iterator[Diagnostic]:
    node = root.at(("instructions", instruction.name, "timing"))
    classes = {c.name: c for c in machine.timing.classes}
    if instruction.timing not in classes:
        yield Diagnostic("E0107", f"unknown timing class '{instruction.timing}'", node.span, nearest(instruction.timing, classes))
        return
    kind = classes[instruction.timing]
    own = frozenset(f.name for f in instruction.fields)
    others = frozenset(f.name for i in machine.instructions for f in i.fields) - own
    scope = scope_of(machine, instruction, footprint=True, more=others)
    for part in _parts(kind):
        yield from problems(part, scope)
        for leaf in walk(part):
            if isinstance(leaf, Name) and leaf.id in others:
                yield Diagnostic("E0141", f"class '{kind.name}' uses field '{leaf.id}', which {instruction.name} does not have", leaf.span)


def _parts(kind: TimingClass) -> Iterator[Expr]:
    yield from (kind.cycles, kind.setup, kind.latency)
    yield from (t.bytes for t in kind.transfers)


def check_sync(machine: Machine, root: Node) -> Iterator[Diagnostic]:
    """E0130 counter without producer or consumer, E0131 sync field without counter, E0133 rule at the wrong end."""
    node = root.get("sync")
    yield from _fields(machine)
    if node is None:
        return
    moved = {(rule.kind, rule.counter) for rule in machine.sync}
    for counter in machine.counters:
        where = node.at(("counters", counter.name.partition(".")[0])).where()
        for kind, end in (("post", "producer"), ("wait", "consumer")):
            automatic = kind == "post" and counter.mode == "all_prior"  # every instruction of the source unit posts one
            if not automatic and (kind, counter.name) not in moved:
                yield Diagnostic("E0130", f"counter '{counter.name}' has no {end}: no {kind} names it", where)
                break
    counters = {c.name: c for c in machine.counters}
    for rule in machine.sync:
        yield from _ends(rule, counters[rule.counter], node)


def _fields(machine: Machine) -> Iterator[Diagnostic]:
    used = {e.id for rule in machine.sync for part in rule.expressions for e in walk(part) if isinstance(e, Name)}
    for field in machine.declared_fields:
        if field.role == "sync" and field.name not in used:
            yield Diagnostic("E0131", f"the sync field '{field.name}' moves no counter", field.span, "name it in sync.waits or sync.posts")


def _ends(rule: SyncRule, counter: Counter, node: Node) -> Iterator[Diagnostic]:
    """A field that waits does so on the counter's target, one that posts on its source."""
    end = counter.target if rule.kind == "wait" else counter.source
    if end and len(rule.units) == 1 and rule.units[0] != end and isinstance(rule.when, Name):
        item = node.at((f"{rule.kind}s", rule.when.id, rule.units[0]))
        verb = "is waited on by" if rule.kind == "wait" else "is posted by"
        text = f"counter '{counter.name}' goes from '{counter.source}' to '{counter.target}', but here it {verb} '{rule.units[0]}'"
        yield Diagnostic("E0133", text, item.span)


def check_timing(machine: Machine, root: Node) -> Iterator[Diagnostic]:
    """E0107 for a transfer through an unknown resource, E0139 for a clock or bandwidth below one."""
    node = root.value["timing"]
    resources = {r.name: r for r in machine.timing.resources}
    for name, item in node.members("classes"):
        for resource, through in item.members("transfers"):
            if resource not in resources:
                yield Diagnostic("E0107", f"unknown resource '{resource}' in class '{name}'", through.key_span, nearest(resource, resources))
    for name, item in node.members("resources"):
        if resources[name].bytes_per_cycle < 1 or resources[name].per < 1:
            yield Diagnostic("E0139", f"'{name}' moves {resources[name].bytes_per_cycle} bytes in {resources[name].per} cycles", item.where())
    if machine.timing.clock_khz < 1:
        yield Diagnostic("E0139", f"a clock of {machine.timing.clock_khz} kHz does not tick", node.value["clock_khz"].span)


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


def check(machine: Machine, root: Node) -> None:
    """Raises UserError with everything that is wrong, in order of place."""
    findings = Findings()
    for part in (check_names, check_encoding, check_expressions, check_sync, check_timing):
        findings.note(part(machine, root))
    findings.settle()
