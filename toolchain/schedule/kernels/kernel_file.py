"""Reads a machine's kernels: targets/NAME/kernels.yaml, every name checked against the machine and the operation."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

from toolchain.isa.semantics.machine import MachineKey
from toolchain.operations.kind import OperationKind
from toolchain.operations.library import Kinds, kinds_of, own_operations
from toolchain.schedule.kernels.kernel import Constant, Dimension, Kernel, Loading, Place, Require, Rows, Step, Tensor, Whole, Window
from toolchain.schedule.kernels.kernel_common import STEPS, naming, with_common
from toolchain.schedule.kernels.kernel_numerics import check_numerics
from toolchain.schedule.kernels.sequence import Code, issues
from toolchain.schedule.kernels.sequence_file import SequenceReader, formula_of
from toolchain.spec.checks.scope import Scope, problems
from toolchain.spec.context import Context
from toolchain.spec.errors import Diagnostic, Source, UserError, fail
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Call, Const, Expr, Member, Name, rewrite
from toolchain.spec.files import read_limited
from toolchain.spec.load import companion
from toolchain.spec.model import Layout, Machine
from toolchain.spec.resources import PACKAGE
from toolchain.spec.schema import validate
from toolchain.spec.suggest import nearest
from toolchain.spec.yaml_nodes import MAX_BYTES, Node, parse_yaml

KERNEL_SCHEMA = PACKAGE / "schemas" / "kernels.schema.json"
OF_WINDOW = ("first", "count", "before", "after", "window")
PLACE = ("memory", "by", "size", "names", "starts", "whole")
PICTURE = "nchw"
"""The indices of a tensor that operations pass on."""
Stamps = tuple[tuple[str, int, int, int], ...]


def load_kernels(machine: Machine) -> dict[str, Kernel]:
    """The machine's kernels by name. Raises UserError E1001 where it has none, and all of `read_kernels`."""
    path = _kernel_path(machine)
    if path is None:
        raise fail("E1001", f"machine '{machine.name}' has no kernels", hint=f"write targets/{machine.name}/kernels.yaml")
    return dict(_loaded(MachineKey(machine), path, (_stamps(path.parent), _stamps(own_operations(machine)))))


@lru_cache(maxsize=16)
def _loaded(key: MachineKey, path: Path, _stamped: tuple[Stamps, Stamps]) -> Mapping[str, Kernel]:
    """Read once for each state of the files: the stages of a build all ask for the kernels."""
    try:
        text = read_limited(path, MAX_BYTES, "the kernel file").decode()
    except UnicodeDecodeError as error:
        raise fail("E0001", f"the kernel file is not UTF-8 text at byte {error.start:#x}", place=str(path)) from None
    return read_kernels(key.machine, Source(str(path), text), path.parent)


def _stamps(folder: Path | None) -> Stamps:
    """Tells one state of a folder's files from the next: path, inode, size and time of the last change."""
    found: list[tuple[str, int, int, int]] = []
    for path in sorted(folder.rglob("*")) if folder else ():
        with suppress(OSError):
            state = path.stat()
            found.append((str(path), state.st_ino, state.st_size, state.st_mtime_ns))
    return tuple(found)


def has_kernels(machine: Machine) -> bool:
    """Whether the machine's folder has a kernel file."""
    return _kernel_path(machine) is not None


def load_kernel(machine: Machine, name: str) -> Kernel:
    """The machine's kernel of that name. Raises UserError E1001 where there is none, and all of `load_kernels`."""
    known = load_kernels(machine)
    if name not in known:
        raise fail("E1001", f"machine '{machine.name}' has no kernel '{name}'", place=str(_kernel_path(machine)), hint=nearest(name, known))
    return known[name]


def _kernel_path(machine: Machine) -> Path | None:
    return companion(Path(machine.path), machine.name, "kernels.yaml")


def read_kernels(machine: Machine, source: Source, folder: Path) -> dict[str, Kernel]:
    """Raises UserError E0101.. for the YAML, E0107 for an unknown name in an expression, E1002 for what the machine lacks, E1009 for numerics that
    a kernel leaves out."""
    root = parse_yaml(source)
    validate(root, KERNEL_SCHEMA)
    choices: dict[str, tuple[str, ...]] = {}
    for (param, choice), _ in sorted(machine.choices.items(), key=lambda item: item[1]):
        choices[param] = (*choices.get(param, ()), choice)
    context = Context(root, machine.config, machine.params, choices)
    shared = _shared(machine, context, root)
    known = kinds_of(machine)
    kernels = {name: with_common(root, node) for name, node in root.members("kernels")}
    found: dict[str, Kernel] = {}
    for name, node in kernels.items():
        with naming(name, root):
            kind = _kind(node, known)
            found[name] = _Reader(machine, context, node, folder, kind, shared).kernel(name)
            check_numerics(machine, found[name], kind)
    return found


@dataclass(frozen=True)
class _Shared:
    """What all kernels of a file have in common, as in Kernel. sequences, shapes: by name, as written."""

    pools: Mapping[str, int]
    registers: str
    segments: Mapping[str, int]
    sequences: Mapping[str, Node]
    shapes: Mapping[str, Node]


def _shared(machine: Machine, context: Context, root: Node) -> _Shared:
    pools = {name: _pool(machine, context, name, node) for name, node in root.members("pools")}
    sequences, shapes = dict(root.members("sequences")), dict(root.members("shapes"))
    for name, node in sequences.items():
        if name in machine.instruction:
            raise fail("E1002", f"'{name}' is an instruction, and cannot be a sequence", node.where())
    node = root.get("registers")
    if node is None:
        return _Shared(pools, "", {}, sequences, shapes)
    held = machine.memory.get(str(node.value))
    if held is None or not held.host:
        known = [m.name for m in machine.memories if m.host]
        raise fail("E1002", f"the host sets no registers '{node.value}'", node.span, nearest(str(node.value), known))
    for name, n in root.members("segments"):
        if n.value >= held.depths[0]:
            raise fail("E1002", f"segment '{name}' has register {n.value}, and '{held.name}' has {held.depths[0]}", n.span)
    return _Shared(pools, held.name, {name: int(n.value) for name, n in root.members("segments")}, sequences, shapes)


def _pool(machine: Machine, context: Context, name: str, node: Node) -> int:
    """How many banks a pool of this memory has."""
    size = context.number(node.value["banks"])
    if name not in machine.memory:
        raise fail("E1002", f"unknown memory '{name}'", node.span, nearest(name, machine.memory))
    if size < 1 or machine.memory[name].banks % size:
        raise fail("E1002", f"the {machine.memory[name].banks} banks of '{name}' do not divide into pools of {size}", node.span)
    return size


def _kind(node: Node, kinds: Kinds) -> OperationKind:
    computes = node.value["computes"]
    if computes.value not in kinds:
        raise fail("E1002", f"unknown operation '{computes.value}'", computes.span, nearest(computes.value, kinds) or f"known: {', '.join(kinds)}")
    return kinds[computes.value]


@dataclass(frozen=True)
class _Reader:
    machine: Machine
    context: Context
    node: Node
    folder: Path
    kind: OperationKind
    shared: _Shared

    def kernel(self, name: str) -> Kernel:
        node = self.node
        let: dict[str, Expr] = {}
        for key, value in self.sorted_let():
            let[key] = self.expr(value, {*self.kind.numbers, *let})
        given = {*self.kind.numbers, *let}
        dims = tuple(self.dimension(key, value, given) for key, value in node.members("tile"))
        windows = tuple(self.window(key, value, given, [d.name for d in dims]) for key, value in node.members("windows"))
        sized = given | {f"{d.name}{end}" for d in dims for end in ("", "_all")} | {f"{w.name}_{part}" for w in windows for part in OF_WINDOW}
        kept = {f"{key}_kept" for key, _ in node.members("places")}
        places = tuple(self.place(key, value, sized | kept, given | kept, dims, windows) for key, value in node.members("places"))
        slotted = sized | {f"{p.name}_{part}" for p in places for part in ("slot", "bank", *p.names)}
        constants = tuple(self.constant(key, value, slotted) for key, value in node.members("constants"))
        residency = node.get("residency")
        if len({c.memory for c in constants}) > 1 or (constants and residency is None):
            raise fail("E1002", "constants stand in one memory, and 'residency' says how they get there", node.where())
        tensors = tuple(self.tensor(key, value, given) for key, value in node.members("tensors"))
        stored = {name for tensor in tensors for name in self.of_tensor(tensor)}
        emitted = given | kept | {f"{d.name}_all" for d in dims}
        seen = _Seen(
            frozenset(sized | kept),
            frozenset(given | kept),
            frozenset(emitted),
            frozenset(stored),
            dims,
            windows,
            places,
            tuple(c.name for c in constants),
        )
        return Kernel(
            name, node.text("computes"), self.folder, let, tuple(self.requirement(n, given) for n in node.entries("requires")), dims,
            tuple(self.expr(n.value["that"], sized | kept) for n in node.entries("where")), windows, places,
            tensors, constants, tuple(self.step(n, seen) for n in node.entries("steps")),
            self.loading(residency) if residency else None, self.code(node, "end", ()) or self.sequences.ending(), node.where(),
            self.shared.pools, self.shared.registers, self.shared.segments, self.code(node, "begin", emitted | stored),
        )  # fmt: skip

    def sorted_let(self) -> Iterator[tuple[str, Node]]:
        """The kernel's own numbers, each after those that it names: a common part may name what the kernel says."""
        waiting = dict(self.node.members("let"))
        named = {key: formula_of(self.context.parse(value)).names - {key} for key, value in waiting.items()}
        while waiting:
            key = next((key for key in waiting if not named[key] & waiting.keys()), next(iter(waiting)))
            yield key, waiting.pop(key)

    def expr(self, node: Node, names: Iterable[str], arrays: Iterable[str] = (), bound: Mapping[str, Expr] | None = None) -> Expr:
        """An expression over these names, the machine's parameters in place. bound: what other names stand for; `place` for a place's own."""
        found = self.context.resolve(_bound(self.context.parse(node), bound)) if bound else self.context.expr(node)
        wrong = list(problems(found, Scope(frozenset(names), hosted=frozenset(arrays))))
        if wrong:
            raise UserError(*wrong)
        return found

    def cycles(self, node: Node, names: Iterable[str]) -> Expr:
        """The cycles of a template: they alone may name constants of the timing section, for time never changes a result."""
        timed = {c.name: c.value for c in self.machine.timing.constants}
        return replace(self, context=self.context.with_names({**timed, **self.machine.params})).expr(node.value["cycles"], names)

    def optional(self, node: Node, key: str, names: Iterable[str], default: int) -> Expr:
        found = node.get(key)
        return self.expr(found, names) if found else Const(default)

    def known(self, node: Node, names: Iterable[str], what: str) -> str:
        """A word that must be one of `names`."""
        names = list(names)
        if node.value not in names:
            raise fail("E1002", f"unknown {what} '{node.value}'", node.span, nearest(str(node.value), names) or f"known: {', '.join(names)}")
        return str(node.value)

    def words(self, node: Node, key: str, names: Iterable[str], what: str) -> tuple[str, ...]:
        return tuple(self.known(n, names, what) for n in node.entries(key))

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

    def window(self, name: str, node: Node, given: Iterable[str], dims: Iterable[str]) -> Window:
        stride, reach, extent = (self.expr(node.value[key], given) for key in ("stride", "reach", "extent"))
        before, step = self.optional(node, "before", given, 0), self.optional(node, "step", given, 1)
        return Window(name, self.known(node.value["of"], dims, "dimension"), stride, reach, before, extent, step)

    def place(self, name: str, node: Node, sized: Iterable[str], given: Iterable[str], dims: Iterable[Dimension], windows: Iterable[Window]) -> Place:
        node, bound = self.shaped(name, node)
        memory = self.known(node.value["memory"], self.machine.memory, "memory")
        by = self.words(node, "by", [d.name for d in dims], "dimension")
        own = {f"{d}{end}" for d in by for end in ("", "_at")} | {f"{w.name}_{part}" for w in windows if w.of in by for part in OF_WINDOW}
        seen = {*given, *own, *(f"{d.name}_all" for d in dims)}
        names = {key: self.expr(value, seen, bound=bound) for key, value in node.members("names")}
        stands = seen | {f"{name}_{part}" for part in ("slot", "bank", *names)}
        starts = {key: formula_of(self.expr(value, stands, bound=bound)) for key, value in node.members("starts")}
        found = node.get("whole")
        whole = self.whole(name, found, names, given, dims, bound) if found else None
        return Place(name, memory, by, self.expr(node.value["size"], sized, bound=bound), names, whole, starts)

    def shaped(self, name: str, node: Node) -> tuple[Node, Mapping[str, Expr]]:
        """A place with what its shape says of it, and what the names that the shape takes stand for."""
        called = node.get("shape")
        if called is None:
            strange = next((key for key, _ in node.items() if key not in PLACE), None)
            lacking = next((key for key in ("memory", "size") if node.get(key) is None), None)
            if strange or lacking:
                fault = Diagnostic("E0108", f"unknown key '{strange}'", node.value[strange].where(), nearest(strange, PLACE)) if strange else None
                raise UserError(fault or Diagnostic("E0109", f"missing key '{lacking}' in place '{name}'", node.where()))
            return node, {}
        shape = self.shared.shapes[self.known(called, self.shared.shapes, "shape")]
        takes, given = dict(shape.members("takes")), {key: value for key, value in node.items() if key not in ("shape", "by", "over")}
        for key, value in given.items():
            if key not in takes:
                raise fail("E1002", f"shape '{called.value}' takes no '{key}'", value.where(), nearest(key, takes) or f"it takes: {', '.join(takes)}")
        lacking = next((key for key, value in takes.items() if key not in given and value.value is None), None)
        if lacking:
            raise fail("E1002", f"shape '{called.value}' needs '{lacking}'", node.where())
        bound = {key: self.context.parse(given.get(key, value)) for key, value in takes.items()}
        whole, over = shape.get("whole"), node.get("over")
        said = {"whole": Node({**whole.value, "over": over}, whole.span, whole.path)} if whole and over else {}
        return Node({**shape.value, **said, "by": node.value["by"]}, node.span, node.path, key_span=node.key_span), {**bound, "place": Name(name)}

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
        of, pitch = self.known(node.value["of"], [d.name for d in dims], "dimension"), self.known(node.value["pitch"], names, "name of the place")
        together, most = (self.expr(node.value[key], given, bound=bound) for key in ("together", "most"))
        return Rows(of, together, pitch, most)

    def tensor(self, name: str, node: Node, given: Iterable[str]) -> Tensor:
        layouts = {item.name: item for item in self.machine.layouts}
        layout = layouts[self.known(node.value["layout"], layouts, "layout")]
        view = self.known(node.value["view"], self.machine.view, "view")
        if len(node.entries("extents")) != len(layout.domain):
            raise fail("E1002", f"layout '{layout.name}' has {len(layout.domain)} extents: {' '.join(layout.extents)}", node.value["extents"].span)
        self.indices(layout, node, given)
        extents = tuple(self.expr(n, given) for n in node.entries("extents"))
        names, let = {*given, *layout.domain}, dict[str, Expr]()
        for key, value in node.members("let"):
            let[key] = self.expr(value, {*names, *let}, self.kind.arrays)
        values = node.get("values")
        return Tensor(
            name, view, layout.name, extents, let, self.expr(values, {*names, *let}, self.kind.arrays) if values else None, node.flag("written")
        )

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
        memory = self.machine.memory[self.known(node.value["memory"], self.machine.memory, "memory")]
        record = [f.name for f in memory.element.record]
        over = {key: self.expr(value, slotted) for key, value in node.members("over")}
        fields = {key: self.expr(value, {*slotted, *over}) for key, value in node.members("fields")}
        for key, value in node.members("fields"):
            self.known(Node(key, value.where(), ()), record, f"field of an element of '{memory.name}'")
        return Constant(name, memory.name, over, fields)

    def loading(self, node: Node) -> Loading:
        view = self.known(node.value["view"], self.machine.view, "view")
        if node.get("do"):
            items = self.sequences.step(node.value["do"], ("count",), ("slot", "base"))
            return Loading(items, view, issues(items)[0].unit, None)
        _complete(node)
        unit = self.known(node.value["unit"], self.units(), "unit")
        return Loading(self.template(node.value["template"]), view, unit, self.cycles(node, ["count"]))

    def of_tensor(self, tensor: Tensor) -> list[str]:
        """What templates see of a tensor in DRAM."""
        domain = next(item.domain for item in self.machine.layouts if item.name == tensor.layout)
        return [f"{tensor.name}_{part}" for part in ("base", "segment", *(["channels"] if "c" in domain else []))]

    def units(self) -> list[str]:
        return [u.name for u in self.machine.units]

    def step(self, node: Node, seen: "_Seen") -> Step:
        found = [(kind, node.value[kind]) for kind in STEPS if node.get(kind)]
        if len(found) != 1:
            raise fail("E1002", f"a step is one of {', '.join(STEPS)}", node.span)
        kind, named = found[0]
        place = self.known(named, [p.name for p in seen.places], "place")
        uses = self.words(node, "uses", [p.name for p in seen.places], "place")
        constants = self.words(node, "constants", seen.constants, "constant")
        when = self.expr(node.value["when"], seen.given) if node.get("when") else None
        if node.get("do"):
            items = self.sequences.step(node.value["do"], seen.step(kind, place, uses), seen.placed(place, uses, constants))
            return Step(kind, place, items, uses, constants, tuple(sorted({i.unit for i in issues(items)})), None, when, node.span)
        _complete(node)
        template, unit = self.template(node.value["template"]), self.known(node.value["unit"], self.units(), "unit")
        return Step(kind, place, template, uses, constants, (unit,), self.cycles(node, seen.sized), when, node.span)


def _bound(expr: Expr, bound: Mapping[str, Expr]) -> Expr:
    """The expression with names replaced; `place.NAME` is PLACE_NAME."""

    def change(e: Expr) -> Expr | None:
        match e:
            case Member(base=Name(id="place"), name=name) if isinstance(own := bound.get("place"), Name):
                return Name(f"{own.id}_{name}", span=e.span)
            case Name(id=name) if name in bound:
                return bound[name]
            case Call(function=function, args=args):
                return Call(function, tuple(rewrite(arg, change) for arg in args), span=e.span)
            case _:
                return None

    return rewrite(expr, change)


def _complete(node: Node) -> None:
    """Raises UserError E0109 where instructions are given neither as `do` nor by a template with its unit and cycles."""
    lacking = [key for key in ("template", "unit", "cycles") if node.get(key) is None]
    if lacking:
        raise fail("E0109", f"missing {' and '.join(repr(key) for key in lacking)}, or 'do' with instructions", node.where())


@dataclass(frozen=True)
class _Seen:
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
    constants: tuple[str, ...]

    def step(self, kind: str, place: str, uses: Iterable[str]) -> set[str]:
        """Those of a step's instructions: a load knows the dimensions of its place only."""
        own = {p.name: p for p in self.places}
        dims = own[place].by if kind == "load" else tuple(d.name for d in self.dims)
        found = {f"{d}{end}" for d in dims for end in ("", "_at")} | {name for name in self.stored if name.endswith("_channels")}
        found |= {f"{w.name}_{part}" for w in self.windows if w.of in dims for part in OF_WINDOW} | self.emitted
        return found | {f"{used}_{name}" for used in (place, *uses) for name in own[used].names}

    def placed(self, place: str, uses: Iterable[str], constants: Iterable[str]) -> set[str]:
        """Those of them that have a value only when tiles and tensors have their places."""
        own = {p.name: p for p in self.places}
        found = {f"{used}_{part}" for used in (place, *uses) for part in ("slot", "bank", *own[used].starts)}
        found |= {f"{name}.{end}" for name in constants for end in ("first", "stop")}
        return found | {name for name in self.stored if not name.endswith("_channels")}


def numbers_of(kernel: Kernel, numbers: Mapping[str, int]) -> dict[str, int]:
    """The operation's numbers and what the kernel derives from them. Raises UserError E1003 with the reason why it cannot do it."""
    known = dict(numbers)
    for name, expr in kernel.let.items():
        known[name] = constant(expr, known)
    for require in kernel.requires:
        if not constant(require.that, known):
            raise fail("E1003", f"kernel '{kernel.name}' cannot do this: {require.message}", require.that.span)
    return known
