"""Names in a kernel: the places and constants that a step's instructions can name, those that they do name, and the names that an
expression may use by the values that are known where it stands; and the names that the cost of instructions depends on."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path

from toolchain.schedule.kernels.kernel import Code, Constant, Dimension, Element, Formula, Issue, Item, Items, Place, Window, place_named
from toolchain.schedule.kernels.kernel_parts import with_words
from toolchain.schedule.sandbox import template_names
from toolchain.spec.errors import Span, fail, nearest
from toolchain.spec.expr import Const, Expr, Name, value_names
from toolchain.spec.fingerprint import MachineKey
from toolchain.spec.model import Machine
from toolchain.timing.class_cost import require_counted, timing_fields

Names = tuple[str, ...]
PARTS = ("first", "stop")
"""The known numbers of a constant that is on chip."""

OF_WINDOW = ("first", "count", "before", "after", "window")


def mentioned(folder: Path, code: Code) -> Names:
    """The names that instructions depend on, each once, in the order in which they stand; those of a template in the order of the alphabet."""
    found = sorted(template_names(folder, code)[0]) if isinstance(code, str) else _of_items(code, {})
    return tuple(dict.fromkeys(found))


def constants_in(names: Iterable[str], constants: Iterable[Constant]) -> Names:
    """The constants that are named, in the kernel's order. A template names `window`, an instruction `window.first`."""
    stems = {name.partition(".")[0] for name in names if "." not in name or name.partition(".")[2] in PARTS}
    return tuple(c.name for c in constants if c.name in stems)


def places_in(names: Iterable[str], constants: Iterable[Constant], places: Iterable[Place], own: str) -> Names:
    """Places other than a step's own one that are named, by the step's instructions first, then by its constants."""
    place_of = {f"{p.name}_{part}": p.name for p in places for part in ("slot", "bank", *p.names, *p.starts)}
    within = [name for c in constants for expr in (*c.over.values(), *c.fields.values()) for name in value_names(expr) if name not in c.over]
    return tuple(place for place in dict.fromkeys(place_of[name] for name in (*names, *within) if name in place_of) if place != own)


def _of_items(items: Items, meaning: Mapping[str, Names]) -> Iterator[str]:
    """meaning: the names that a name of `for`, `let` or a call stands for."""
    for item in items:
        inner = dict(meaning)
        for name, count in item.loops.items():
            yield from _expanded(count, inner)
            inner[name] = ()
        for name, formula in item.let.items():
            inner[name] = tuple(_expanded(formula, meaning if item.call else inner))
        if item.when:
            yield from _expanded(item.when, inner)
        if isinstance(item.body, Issue):
            for formula in item.body.fields.values():
                yield from _expanded(formula, inner)
        else:
            yield from _of_items(item.body, inner)


def _expanded(formula: Formula, meaning: Mapping[str, Names]) -> Iterator[str]:
    for name in value_names(formula.expr) if formula.names else ():
        yield from meaning.get(name, (name,))


@dataclass(frozen=True)
class Scene:
    """places: by name, the memory of each. constants: by name. elements: by PLACE_NAME, where an element of that place stands.

    sized: names that are known of a tile when it is chosen. settled: and those of its places, before tensors have theirs in DRAM.
    """

    places: Mapping[str, str] = field(default_factory=dict[str, str])
    constants: frozenset[str] = frozenset()
    elements: Mapping[str, Element] = field(default_factory=dict[str, Element])
    sized: frozenset[str] = frozenset()
    settled: frozenset[str] = frozenset()

    @cached_property
    def words(self) -> frozenset[str]:
        return self.constants | self.places.keys()

    def member(self, role: str, name: str, spelled: Mapping[str, int], span: Span | None) -> Expr:
        """`ROLE.NAME`: PLACE_NAME of a place, CONSTANT.NAME of a constant. spelled: words of the field in which this stands, for `ROLE.memory`.

        Raises UserError E1002 for a field that has no word for the memory.
        """
        if name == "memory" and role in self.places:
            if self.places[role] not in spelled:
                raise fail("E1002", f"'{role}' stands in '{self.places[role]}', and no value of a field is called so here", span)
            return Const(spelled[self.places[role]], span=span)
        return Name(f"{role}_{name}" if role in self.places else f"{role}.{name}", span=span)

    def element(self, name: str, args: tuple[Expr, ...], span: Span | None) -> Expr:
        """Raises UserError E0107 for a place that says nothing of the kind, E0123 for a wrong number of arguments."""
        if name not in self.elements:
            raise fail("E0107", f"unknown function '{name}'", span, nearest(name, self.elements))
        found = self.elements[name]
        if len(found.takes) != len(args):
            wanted = f"{name} takes {len(found.takes)} argument{'s' * (len(found.takes) != 1)} ({', '.join(found.takes)})"
            raise fail("E0123", f"{wanted}, not {len(args)}", span)
        return with_words(found.expr, dict(zip(found.takes, args, strict=True)))


NOWHERE = Scene()


def scene_of(places: Iterable[Place], constants: Iterable[Constant], sized: frozenset[str] = frozenset()) -> Scene:
    """The places, constants and elements that steps of a kernel act on. sized: as in Scene."""
    places = tuple(places)
    elements = {f"{p.name}_{key}": element for p in places for key, element in p.elements.items()}
    settled = sized | {f"{p.name}_{part}" for p in places for part in ("slot", "bank", *p.names)}
    return Scene({p.name: p.memory for p in places}, frozenset(c.name for c in constants), elements, sized, settled)


@dataclass(frozen=True)
class Seen:
    """Names that expressions about tiles may use. given: of the operation. sized: and of tiles. emitted: of the operation, for instructions.

    stored: of tensors in DRAM.
    """

    sized: frozenset[str]
    given: frozenset[str]
    emitted: frozenset[str]
    stored: frozenset[str]
    dims: tuple[Dimension, ...]
    windows: tuple[Window, ...]
    places: tuple[Place, ...]
    constants: tuple[Constant, ...]

    def step(self, kind: str, place: str) -> set[str]:
        """Names of a step's instructions: a load knows the dimensions of its place only."""
        dims = place_named(self.places, place).by if kind == "load" else tuple(d.name for d in self.dims)
        found = {f"{d}{end}" for d in dims for end in ("", "_at")} | {name for name in self.stored if name.endswith("_channels")}
        found |= {f"{w.name}_{part}" for w in self.windows if w.of in dims for part in OF_WINDOW} | self.emitted
        return found | {f"{p.name}_{name}" for p in self.places for name in p.names}

    @cached_property
    def scene(self) -> Scene:
        return scene_of(self.places, self.constants, self.sized)

    @cached_property
    def placed(self) -> frozenset[str]:
        """Names that have a value only when tiles and tensors have their places."""
        found = {f"{p.name}_{part}" for p in self.places for part in ("slot", "bank", *p.starts)}
        found |= {f"{c.name}.{end}" for c in self.constants for end in PARTS}
        return frozenset(found | {name for name in self.stored if not name.endswith("_channels")})


@lru_cache(maxsize=1024)
def _timed(key: MachineKey, instruction: str) -> tuple[frozenset[str], frozenset[tuple[str, str]]]:
    """The fields, and the latched ones by register, that an instruction's time depends on."""
    require_counted(key.machine, key.machine.instruction[instruction])
    own, latched = timing_fields(key.machine, key.machine.instruction[instruction])
    return frozenset(own), frozenset(latched)


def needs(machine: Machine, items: Items) -> frozenset[str]:
    """The names that the cost of items depends on; REGISTER.FIELD for a value that an earlier instruction has to latch."""
    found = frozenset[str]()
    for item in reversed(items):
        found = _item_needs(machine, item, found)
    return found


def _item_needs(machine: Machine, item: Item, after: frozenset[str]) -> frozenset[str]:
    inner = _body_needs(machine, item, after)
    for name, count in [*item.loops.items()][::-1]:
        inner = (inner - {name}) | count.names
    if isinstance(item.body, Issue) and item.body.latches and not item.loops and item.when is None:
        after = frozenset(name for name in after if name.partition(".")[0] not in item.body.latches)
    return after | inner


def _body_needs(machine: Machine, item: Item, after: frozenset[str]) -> frozenset[str]:
    """Names that one round needs."""
    if isinstance(item.body, Issue):
        own, latched = _timed(MachineKey(machine), item.body.instruction)
        own |= {name.partition(".")[2] for name in after if name.partition(".")[0] in item.body.latches}
        inner = frozenset(f"{register}.{name}" for register, name in latched)
        inner = inner.union(*(item.body.fields[name].names for name in own if name in item.body.fields))
    else:
        inner = needs(machine, item.body)
    inner |= item.when.names if item.when else frozenset()
    if item.call:
        return frozenset(inner - item.let.keys()).union(*(item.let[name].names for name in inner if name in item.let))
    for name, formula in [*item.let.items()][::-1]:
        inner = (inner - {name}) | formula.names if name in inner else inner
    return inner


def varying(machine: Machine, item: Item) -> frozenset[str]:
    """The loop variables that one round's cost depends on."""
    inner, found = _body_needs(machine, item, frozenset()), set[str]()
    for name, count in [*item.loops.items()][::-1]:
        found |= {name} & inner
        inner = (inner - {name}) | count.names
    return frozenset(found)
