"""Reads one kernel: every name checked against the machine and the operation."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from toolchain.operations.kind import OperationKind
from toolchain.schedule.kernels.defaults import (
    PICTURE,
    array_indices,
    default_tensors,
    derived_window,
    dimensions_named,
    folded,
    only_view,
    picture_numbers,
    reached,
    sum_numbers,
    told_apart,
    with_views,
)
from toolchain.schedule.kernels.kernel import (
    NEAR,
    Code,
    Constant,
    Dimension,
    Element,
    Kernel,
    Loading,
    Place,
    Require,
    Rows,
    Step,
    Tensor,
    Waits,
    Whole,
    Window,
    issues,
)
from toolchain.schedule.kernels.kernel_names import OF_WINDOW, Seen, constants_in, mentioned, places_in
from toolchain.schedule.kernels.kernel_parts import STEPS, Shared, checked, known_word, shaped, step_of_shape, timed, with_words
from toolchain.schedule.kernels.sequence_file import SequenceReader, formula_of
from toolchain.spec.context import Context
from toolchain.spec.errors import Span, fail
from toolchain.spec.expr import Const, Expr
from toolchain.spec.model import Layout, Machine
from toolchain.spec.yaml_nodes import Node

ELEMENT = re.compile(r"(\w+)\((\w+(?:, *\w+)*)\)")
"""A name with its arguments."""


@dataclass(frozen=True)
class KernelReader:
    """One kernel of a file. node: with the parts that it has in common with others. kind: the operation that it computes."""

    machine: Machine
    context: Context
    node: Node
    folder: Path
    kind: OperationKind
    shared: Shared

    def kernel(self, name: str) -> Kernel:
        node = self.node
        let = self.numbers()
        given = {*self.kind.numbers, *let}
        dims = tuple(self.dimension(key, value, given) for key, value in node.members("tile"))
        windows = self.windows(given, dims)
        sized = given | {f"{d.name}{end}" for d in dims for end in ("", "_all")} | {f"{w.name}_{part}" for w in windows for part in OF_WINDOW}
        kept = {f"{key}_{end}" for key, _ in node.members("places") for end in ("kept", "receivers")}
        kept |= {f"{key}_shared" for key in (*self.kind.operand, self.kind.result.name)}
        kept |= {f"{key}_{end}" for key, value in node.members("tensors") if value.get("waits") for end in NEAR}
        places = self.places(sized | kept, given | kept, dims, windows)
        slotted = sized | {f"{p.name}_{part}" for p in places for part in ("slot", "bank", *p.names)}
        constants = tuple(self.constant(key, value, slotted) for key, value in node.members("constants"))
        stated = tuple(self.tensor(key, value, given) for key, value in node.members("tensors"))
        tensors = (*stated, *default_tensors(self.machine, self.kind, [t.name for t in stated], node))
        stored = {name for tensor in tensors for name in self.of_tensor(tensor)}
        emitted = given | kept | {f"{d.name}_all" for d in dims}
        seen = Seen(frozenset(sized | kept), frozenset(given | kept), frozenset(emitted), frozenset(stored), dims, windows, places, constants)
        self.sequences.numbers = {key: expr for key, expr in let.items() if isinstance(expr, Const)}
        own = [self.step(n, seen) for n in node.entries("steps")]
        steps = sorted([*own, *self.shaped_steps(tensors, own, seen)], key=lambda step: STEPS.index(step.kind))
        constants, residency = (*constants, *self.sequences.tables.made), node.get("residency")
        if len({c.memory for c in constants}) > 1 or (constants and residency is None):
            raise fail("E1002", "constants stand in one memory, and 'residency' says how they get there", node.where())
        tensors = with_views(self.machine, [t for t in tensors if t in stated or reached(steps, t)], steps, node)
        return Kernel(
            name, node.text("computes"), self.folder, let, tuple(self.requirement(n, given) for n in node.entries("requires")), dims,
            tuple(self.expr(n.value["that"], sized | kept) for n in node.entries("where")), windows, places,
            tensors, constants, tuple(steps),
            self.loading(residency) if residency else None, self.code(node, "end", ()) or self.sequences.ending(), node.where(),
            self.shared.pools, self.shared.registers, self.shared.segments, self.code(node, "begin", emitted | stored), self.axes(dims),
            self.passed(tensors, places),
        )  # fmt: skip

    def numbers(self) -> dict[str, Expr]:
        """Numbers that the kernel derives from the operation's, each after those that it names."""
        derived = {**picture_numbers(self.kind), **sum_numbers(self.kind, self.machine.quantisation)}
        let = {key: expr for key, expr in derived.items() if key not in dict(self.node.members("let"))}
        for key, value in self.sorted_let():
            let[key] = self.expr(value, {*self.kind.numbers, *let})
        return let

    def axes(self, dims: Iterable[Dimension]) -> dict[str, str]:
        """By axis of the result, the dimension that cuts it."""
        names = [d.name for d in dims if not d.reduces]
        return {axis: known_word(node, names, "dimension") for axis, node in self.node.members("axes")}

    def passed(self, tensors: Iterable[Tensor], places: Iterable[Place]) -> tuple[str, ...]:
        """Operands that stand nowhere in DRAM. Raises UserError E1002 for one that no place holds."""
        stored, held = {t.name for t in tensors}, {name for p in places for name in (p.name, p.onto)}
        found = tuple(name for name in self.kind.data if name not in stored)
        lost = next((name for name in (*found, *(p.onto for p in places if p.onto in stored)) if name not in held or name in stored), None)
        if lost:
            text = f"operand '{lost}' is loaded, and a place is made onto it" if lost in stored else f"no tensor and no place holds operand '{lost}'"
            raise fail("E1002", text, self.node.where())
        return found

    def sorted_let(self) -> Iterator[tuple[str, Node]]:
        """The kernel's own numbers, each after the ones that it names: a common part may name numbers that the kernel states."""
        waiting = dict(self.node.members("let"))
        named = {key: formula_of(self.context.parse(value)).names - {key} for key, value in waiting.items()}
        while waiting:
            key = next((key for key in waiting if not named[key] & waiting.keys()), next(iter(waiting)))
            yield key, waiting.pop(key)

    def expr(self, node: Node, names: Iterable[str], arrays: Iterable[str] = (), bound: Mapping[str, Expr] | None = None) -> Expr:
        """An expression over these names, the machine's parameters in place. bound: the expressions that other names stand for; `place` for a place's
        own."""
        found = self.context.resolve(with_words(self.context.parse(node), bound)) if bound else self.context.expr(node)
        return checked(found, names, arrays)

    def cycles(self, node: Node, names: Iterable[str]) -> Expr:
        """The cycles of a template, over these names and constants of the timing section."""
        return replace(self, context=timed(self.machine, self.context)).expr(node.value["cycles"], names)

    def optional(self, node: Node, key: str, names: Iterable[str], default: int) -> Expr:
        found = node.get(key)
        return self.expr(found, names) if found else Const(default)

    def words(self, node: Node, key: str, names: Iterable[str], what: str) -> tuple[str, ...]:
        return tuple(known_word(n, names, what) for n in node.entries(key))

    def template(self, node: Node) -> str:
        """The name of a template beside the file."""
        if not (self.folder / str(node.value)).is_file():
            raise fail("E1002", f"there is no template '{node.value}' in {self.folder}", node.span)
        return str(node.value)

    @cached_property
    def sequences(self) -> SequenceReader:
        return SequenceReader(self.machine, self.context, self.shared.sequences)

    def code(self, node: Node, key: str, names: Iterable[str]) -> Code:
        """A template's name or instructions; none where there is no such key."""
        found = node.get(key)
        if found is None:
            return ()
        return self.template(found) if isinstance(found.value, str) else self.sequences.step(found, names, ())

    def requirement(self, node: Node, given: Iterable[str]) -> Require:
        return Require(self.expr(node.value["that"], given), node.text("message"))

    def dimension(self, name: str, node: Node, given: Iterable[str]) -> Dimension:
        most, multiple = (self.expr(node.value[key], given) if node.get(key) else None for key in ("most", "multiple"))
        return Dimension(name, self.expr(node.value["of"], given), most, multiple, node.flag("reduces"))

    def windows(self, given: Iterable[str], dims: Iterable[Dimension]) -> tuple[Window, ...]:
        """The stated windows; else those of the axes that the tile cuts, where the operation's meaning says them."""
        stated = self.node.members("windows")
        cut = [(axis, Node({"of": node}, node.span, node.path)) for axis, node in self.node.members("axes") if derived_window(self.kind, axis)]
        return tuple(self.window(key, value, given, [d.name for d in dims]) for key, value in stated or [each for each in cut if each[0] in "hw"])

    def window(self, name: str, node: Node, given: Iterable[str], dims: Iterable[str]) -> Window:
        """One of an axis, as the operation's meaning says it but for the keys that are stated. Raises UserError E1002 where neither says it."""
        fold = self.optional(node, "fold", given, 1)
        derived = {"step": Const(1), **folded(derived_window(self.kind, name), fold)}
        stated = {key: self.expr(value, given) for key, value in node.items() if key not in ("of", "fold")}
        found = {**derived, **stated}
        lacking = [key for key in ("stride", "reach", "extent") if key not in found]
        if lacking:
            text = f"window '{name}' needs {' and '.join(map(repr, lacking))}: the meaning of {self.kind.name} does not say it"
            raise fail("E1002", text, node.where(), "windows along h and w are derived where the first operand is read at a sum of loops")
        before = found.get("before", Const(0))
        return Window(name, known_word(node.value["of"], dims, "dimension"), found["stride"], found["reach"], before, found["extent"], found["step"])

    def places(self, sized: Iterable[str], given: Iterable[str], dims: Iterable[Dimension], windows: Iterable[Window]) -> tuple[Place, ...]:
        """In the order in which they stand; a place whose size names numbers of others is read after them."""
        members, found, numbers = self.node.members("places"), dict[str, Place](), dict[str, Expr]()
        others = {key for key, _ in members}
        for key, value in sorted(members, key=lambda member: self.follows(member[1], others)):
            found[key] = self.place(key, value, sized, given, dims, windows, numbers)
            numbers |= {f"{key}_{name}": expr for name, expr in found[key].names.items()}
        return tuple(found[key] for key, _ in members)

    def follows(self, node: Node, places: Iterable[str]) -> bool:
        """Whether a place's size is said by numbers of other places."""
        size = node.get("size")
        return size is not None and any(name.partition("_")[0] in places for name in formula_of(self.context.parse(size)).names if "_" in name)

    def place(
        self,
        name: str,
        node: Node,
        sized: Iterable[str],
        given: Iterable[str],
        dims: Iterable[Dimension],
        windows: Iterable[Window],
        numbers: Mapping[str, Expr],
    ) -> Place:
        """numbers: of the places that were read before, as PLACE_NAME."""
        by = self.told_apart(name, node, dims, windows)
        node, bound = shaped(self.context, self.shared.shapes, name, node)
        memory = known_word(node.value["memory"], self.machine.memory, "memory")
        own = {f"{d}{end}" for d in by for end in ("", "_at")} | {f"{w.name}_{part}" for w in windows if w.of in by for part in OF_WINDOW}
        seen = {*given, *own, *(f"{d.name}_all" for d in dims)}
        names = {key: self.expr(value, seen, bound=bound) for key, value in node.members("names")}
        stands = seen | {f"{name}_{part}" for part in ("slot", "bank", *names)}
        starts = {key: formula_of(self.expr(value, stands, bound=bound)) for key, value in node.members("starts") if "(" not in key}
        elements = {word: found for key, value in node.members("starts") if "(" in key for word, found in [self.element(key, value, bound)]}
        found = node.get("whole")
        whole = self.whole(name, found, names, given, dims, bound) if found else None
        onto = known_word(node.value["onto"], self.kind.data, "operand") if node.get("onto") else ""
        return Place(name, memory, by, self.expr(node.value["size"], sized, bound={**numbers, **bound}), names, whole, starts, onto, elements)

    def told_apart(self, name: str, node: Node, dims: Iterable[Dimension], windows: Iterable[Window]) -> tuple[str, ...]:
        """The dimensions that are stated, else those that the load of the place depends on."""
        if node.get("by"):
            return self.words(node, "by", [d.name for d in dims], "dimension")
        return dimensions_named(told_apart(name, node, self.node, self.shared.shapes, self.kind.result.name, self.folder), dims, windows)

    def element(self, key: str, node: Node, bound: Mapping[str, Expr]) -> tuple[str, Element]:
        """`word(row, column): ...`. Raises UserError E1002 for a key that is not written so."""
        match = ELEMENT.fullmatch(key)
        if match is None:
            raise fail("E1002", f"'{key}' is not written as NAME(NAME, ...)", node.where())
        takes = tuple(part.strip() for part in match[2].split(","))
        return match[1], Element(takes, with_words(self.context.parse(node), {name: e for name, e in bound.items() if name not in takes}))

    def whole(
        self, place: str, node: Node, tile: Mapping[str, Expr], given: Iterable[str], dims: Iterable[Dimension], bound: Mapping[str, Expr]
    ) -> Whole:
        seen = {*given, *(f"{d.name}_all" for d in dims), f"{place}_channels", f"{place}_channel"}
        names = {key: self.expr(value, seen, bound=bound) for key, value in node.members("names")}
        if set(names) != set(tile):
            raise fail("E1002", f"a whole '{place}' has other names than a tile of it: {', '.join(sorted(set(names) ^ set(tile)))}", node.span)
        over = self.words(node, "over", [key for key, _ in self.node.members("places")], "place")
        when = self.expr(node.value["when"], seen, bound=bound) if node.get("when") else None
        rows = self.rows(node.value["rows"], names, given, dims, bound) if node.get("rows") else None
        return Whole(self.expr(node.value["size"], seen, bound=bound), names, over, when, rows)

    def rows(self, node: Node, names: Iterable[str], given: Iterable[str], dims: Iterable[Dimension], bound: Mapping[str, Expr]) -> Rows:
        of, pitch = known_word(node.value["of"], [d.name for d in dims], "dimension"), known_word(node.value["pitch"], names, "name of the place")
        together, most = (self.expr(node.value[key], given, bound=bound) for key in ("together", "most"))
        return Rows(of, together, pitch, most)

    def tensor(self, name: str, node: Node, given: Iterable[str]) -> Tensor:
        layouts = {item.name: item for item in self.machine.layouts}
        layout = layouts[known_word(node.value["layout"], layouts, "layout")]
        view = known_word(node.value["view"], self.machine.view, "view") if node.get("view") else ""
        if node.get("extents") is None:
            node = self.whole_array(name, node, layout)
        if len(node.entries("extents")) != len(layout.domain):
            raise fail("E1002", f"layout '{layout.name}' has {len(layout.domain)} extents: {' '.join(layout.extents)}", node.value["extents"].span)
        self.indices(layout, node, given)
        extents = tuple(self.expr(n, given) for n in node.entries("extents"))
        names, let = {*given, *layout.domain}, dict[str, Expr]()
        for key, value in node.members("let"):
            let[key] = self.expr(value, {*names, *let}, self.kind.arrays)
        values = node.get("values")
        return Tensor(
            name, view, layout.name, extents, let, self.expr(values, {*names, *let}, self.kind.arrays) if values else None, node.flag("written"),
            self.shared_view(node, view), self.waits(node),
        )  # fmt: skip

    def whole_array(self, name: str, node: Node, layout: Layout) -> Node:
        """The entry of a tensor whose `values` are an operand's name, spelled out. Raises UserError E1002 where the layout has other indices."""
        values = node.get("values")
        if values is None or values.value not in self.kind.known:
            known = f"or values: {' or '.join(self.kind.known)}, to store it as it is" if self.kind.known else ""
            raise fail("E1002", f"tensor '{name}' needs 'extents'", node.where(), known)
        operand = self.kind.operand[values.value]
        found = array_indices(operand, layout)
        if not found:
            text = f"layout '{layout.name}' has the indices {' '.join(layout.domain)}, and '{operand.name}' has {len(operand.axes)}"
            raise fail("E1002", text, values.span)
        own = {axis: index for index, axis in found.items()}
        extents = [Node(operand.axes[found[index]], values.span, values.path) for index in layout.domain]
        read = Node(f"{operand.name}[{', '.join(own[axis] for axis in operand.axes)}]", values.span, values.path)
        return Node({**node.value, "extents": Node(extents, values.span, values.path), "values": read}, node.span, node.path, key_span=node.key_span)

    def shared_view(self, node: Node, view: str) -> str:
        """Raises UserError E1002 for a view of DRAM, of private elements of other scalars, or of a tensor whose values are known."""
        held = node.get("shared")
        if held is None:
            return ""
        found = self.machine.view[known_word(held, self.machine.view, "view")]
        if node.get("values") is not None or self.machine.memory[found.memory].kind == "dram" or not found.unit:
            raise fail("E1002", "'shared' names a memory on chip for a tensor that operations make", held.where())
        if view and found.element.scalar != self.machine.view[view].element.scalar:
            raise fail("E1002", f"'{found.name}' has other scalars than '{view}'", held.where())
        return found.name

    def waits(self, node: Node) -> Waits | None:
        """Raises UserError E1002 for a memory that streams do not share, another dimension than the kernel's, or values that are not known."""
        held = node.get("waits")
        if held is None:
            return None
        memory = self.machine.memory[known_word(held.value["memory"], self.machine.memory, "memory")]
        by = known_word(held.value["by"], [key for key, _ in self.node.members("tile")], "dimension")
        alone = 1 < self.machine.streams == self.machine.instances(memory.scope)
        if node.get("values") is None or memory.kind == "dram" or alone:
            raise fail("E1002", "'waits' names a memory on chip that streams share, for values that are known when compiling", held.where())
        return Waits(memory.name, by)

    def indices(self, layout: Layout, node: Node, given: Iterable[str]) -> None:
        """Raises UserError E1002 for index names that mean nothing for a picture, or two things where values are spelled out."""
        where, names = node.value["layout"].span, " ".join(layout.domain)
        if node.get("values") is None and sorted(layout.domain) != sorted(PICTURE):
            text = f"layout '{layout.name}' has the indices {names}; those of a tensor that operations read or write are n, c, h and w"
            raise fail("E1002", text, where, "only a tensor with 'values' may have others")
        twice = sorted({*layout.domain} & {*given, *self.kind.arrays, *(key for key, _ in node.members("let"))})
        if node.get("values") is not None and twice:
            raise fail("E1002", f"'{twice[0]}' is an index of layout '{layout.name}' and another name of this kernel", where)

    def constant(self, name: str, node: Node, slotted: Iterable[str]) -> Constant:
        memory = self.machine.memory[self.control_memory(node)]
        record = [f.name for f in memory.element.record]
        over = {key: self.expr(value, slotted) for key, value in node.members("over")}
        fields = {key: self.expr(value, {*slotted, *over}) for key, value in node.members("fields")}
        for key, value in node.members("fields"):
            known_word(Node(key, value.where(), ()), record, f"field of an element of '{memory.name}'")
        return Constant(name, memory.name, over, fields)

    def control_memory(self, node: Node) -> str:
        """The memory of a constant: the one that is stated, else the machine's only control memory. Raises UserError E1002."""
        if stated := node.get("memory"):
            return known_word(stated, self.machine.memory, "memory")
        known = [memory.name for memory in self.machine.memories if memory.control]
        if len(known) != 1:
            raise fail("E1002", f"a constant needs a 'memory', as the machine has {len(known)} for control", node.where())
        return known[0]

    def loading(self, node: Node) -> Loading:
        if node.get("do"):
            items = self.sequences.step(node.value["do"], ("count",), ("slot", "base"))
            return Loading(items, only_view(self.machine, [items], "these constants", node), issues(items)[0].unit, None)
        _complete(node)
        if node.get("view") is None:
            raise fail("E0109", "missing key 'view', which a template does not tell", node.where())
        view = known_word(node.value["view"], self.machine.view, "view")
        unit = known_word(node.value["unit"], self.units(), "unit")
        return Loading(self.template(node.value["template"]), view, unit, self.cycles(node, ["count"]))

    def of_tensor(self, tensor: Tensor) -> list[str]:
        """Names of a tensor in DRAM."""
        domain = next(item.domain for item in self.machine.layouts if item.name == tensor.layout)
        return [f"{tensor.name}_{part}" for part in ("base", "segment", *(["channels"] if "c" in domain else []))]

    def units(self) -> list[str]:
        return [u.name for u in self.machine.units]

    def step(self, node: Node, seen: Seen) -> Step:
        found = [(kind, node.value[kind]) for kind in STEPS if node.get(kind)]
        if len(found) != 1:
            raise fail("E1002", f"a step is one of {', '.join(STEPS)}", node.span)
        kind, named = found[0]
        place = known_word(named, [p.name for p in seen.places], "place")
        when = self.expr(node.value["when"], seen.given) if node.get("when") else None
        if node.get("do"):
            code: Code = self.sequences.step(node.value["do"], seen.step(kind, place), seen.placed, place, seen.scene)
            units, cycles = tuple(sorted({i.unit for i in issues(code)})), None
        else:
            _complete(node)
            code, units = self.template(node.value["template"]), (known_word(node.value["unit"], self.units(), "unit"),)
            cycles = self.cycles(node, seen.sized)
        return self.made_step(kind, place, code, units, cycles, when, node.span, seen)

    def made_step(
        self, kind: str, place: str, code: Code, units: tuple[str, ...], cycles: Expr | None, when: Expr | None, span: Span, seen: Seen
    ) -> Step:
        """A step with the constants and places that its instructions name."""
        names = mentioned(self.folder, code)
        known = (*seen.constants, *self.sequences.tables.made)
        constants = constants_in(names, known)
        uses = places_in(names, [c for c in known if c.name in constants], seen.places, place)
        return Step(kind, place, code, uses, constants, units, cycles, when, span, kind == "load" and f"{place}_receivers" in names, names)

    def shaped_steps(self, tensors: Iterable[Tensor], own: Iterable[Step], seen: Seen) -> Iterator[Step]:
        """Loads and stores of tensors whose places have a shape that says how, where the kernel has none of its own."""
        said, stored = {(step.kind, step.place) for step in own}, {t.name: "store" if t.written else "load" for t in tensors}
        for place, node in self.node.members("places"):
            kind, shape = stored.get(place, ""), node.get("shape")
            if shape is None or not kind or (kind, place) in said or (kind == "load" and node.get("onto")):
                continue
            called = step_of_shape(self.shared.shapes[str(shape.value)], str(shape.value), kind, node)
            if called:
                items = self.sequences.shape_step(called, seen.step(kind, place), seen.placed, place, seen.scene)
                yield self.made_step(kind, place, items, tuple(sorted({i.unit for i in issues(items)})), None, None, called.given.where(), seen)


def _complete(node: Node) -> None:
    """Raises UserError E0109 where instructions are given neither as `do` nor by a template with its unit and cycles."""
    lacking = [key for key in ("template", "unit", "cycles") if node.get(key) is None]
    if lacking:
        raise fail("E0109", f"missing {' and '.join(repr(key) for key in lacking)}, or 'do' with instructions", node.where())
