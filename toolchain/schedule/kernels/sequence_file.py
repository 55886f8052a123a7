"""Reads steps that are given as instructions: every field, name and value checked against the machine."""

import functools
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from toolchain.isa.encode import matched_value
from toolchain.isa.semantics.loops import LoopNest, loop_nest
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.schedule.kernels.kernel import Constant, Formula, Issue, Item, Items
from toolchain.schedule.kernels.kernel_names import NOWHERE, Scene, needs, varying
from toolchain.schedule.kernels.kernel_parts import ShapeCall
from toolchain.schedule.kernels.looped_issue import ALONE, RecordTables, Rounds, names_in, solved
from toolchain.spec.context import Context, Scope, problems
from toolchain.spec.errors import Span, UserError, fail, nearest
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Call, Const, Expr, Member, Name, rewrite
from toolchain.spec.fingerprint import MachineKey
from toolchain.spec.model import Field, Instruction, Machine
from toolchain.spec.yaml_nodes import Node

WORDS = ("for", "over", "records", "let", "when", "do")
LOOPS = {"for": "around", "over": "over", "records": "records"}
"""Words that count rounds, and the kind of each."""
MOST_ISSUES = 1000
"""Instructions that one step may spell out, sequences in place."""

Names = frozenset[str]


@dataclass
class SequenceReader:
    """sequences: by name, as written. inside: those that are being read. fixed: names that stand for expressions. roles: words that stand for
    places, constants and instructions, as `place` for the step's own place. scene: the places and constants that steps act on.

    issued: how many instructions the current step has. outside: names of the caller of a sequence, which may have another meaning there.
    unknown: names without a value before tiles are placed. made_of: the names that those of loops and `let` depend on. rounds: the loops around the
    item that is read. tables: of the records that instructions ask for. numbers: names that are the same number for every operation.
    """

    machine: Machine
    context: Context
    sequences: Mapping[str, Node]
    inside: list[str] = field(default_factory=list[str])
    fixed: Mapping[str, Expr] = field(default_factory=dict[str, Expr])
    issued: int = 0
    unknown: frozenset[str] = frozenset()
    outside: frozenset[str] = frozenset()
    made_of: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    roles: Mapping[str, str] = field(default_factory=dict[str, str])
    scene: Scene = NOWHERE
    rounds: Rounds = ALONE
    tables: RecordTables = field(default_factory=RecordTables)
    numbers: Mapping[str, Expr] = field(default_factory=dict[str, Expr])

    def step(self, node: Node, names: Iterable[str], placed: Iterable[str], place: str = "", scene: Scene = NOWHERE) -> Items:
        """The items of one step of a place. placed: names that have a value only when tiles have their places.

        Raises UserError E1002, E0107, E0304.
        """
        self._begin(placed, place, scene)
        return self._stepped(self.items(node, frozenset(names) | self.unknown), node)

    def shape_step(self, called: ShapeCall, names: Iterable[str], placed: Iterable[str], place: str, scene: Scene) -> Items:
        """The items of a step that a shape says of its places."""
        self._begin(placed, place, scene)
        return self._stepped((self._call(called.name, called.sequence, called.given, frozenset(names) | self.unknown),), called.given)

    def _begin(self, placed: Iterable[str], place: str, scene: Scene) -> None:
        self.issued, self.unknown, self.made_of = 0, frozenset(placed), {}
        self.roles, self.scene, self.rounds = {"place": place} if place else {}, scene, ALONE.naming(self.numbers)

    def _stepped(self, found: Items, node: Node) -> Items:
        lacking = sorted(name for name in needs(self.machine, found) if "." in name and name.partition(".")[0] in self._latched())
        if lacking:
            register, _, name = lacking[0].partition(".")
            latches = " or ".join(self.machine.memory[register].latches)
            raise fail("E1002", f"the cycles of this step depend on '{name}' of {latches}, which stands before it in no round", node.where())
        return found

    def ending(self) -> Items:
        """The instruction that ends a program, all its fields at their defaults; none where the machine has none."""
        node = self.context.root
        if not self.machine.program.ends:
            return ()
        return (self._item(Node({self.machine.program.ends: Node({}, node.span, ())}, node.span, ()), frozenset()),)

    def items(self, node: Node, names: Names) -> Items:
        entries = node.children() if isinstance(node.value, list) else [node]
        if not entries:
            raise fail("E0116", "this must not be empty", node.span)
        return tuple(self._item(entry, names) for entry in entries)

    def _item(self, node: Node, names: Names) -> Item:
        if isinstance(node.value, str):
            node = Node({node.value: Node({}, node.span, node.path)}, node.span, node.path)
        outer, self.made_of, rounds, fixed = self.made_of, dict(self.made_of), self.rounds, self.fixed
        try:
            return self._scoped(node, names)
        finally:
            self.made_of, self.rounds, self.fixed = outer, rounds, fixed

    def _scoped(self, node: Node, names: Names) -> Item:
        own = [key for key in _mapping(node) if key not in WORDS]
        if len(own) + (node.get("do") is not None) != 1:
            raise fail("E1002", "this is to be one instruction, one sequence, or 'do' with a list of them", node.span)
        loops, let = dict[str, Formula](), dict[str, Formula]()
        for word, kind in LOOPS.items():
            for key, value in _mapping(node.get(word)).items():
                count = self._steady(self.formula(value, names), word, value)
                names |= {self._new(key, value, names, within=word == "for")}
                self.made_of[key] = self._basis(count) | {key}
                loops |= {key: count} if word == "for" else {}
                self.rounds = self.rounds.counting(kind, key, count.expr)
        for key, value in _mapping(node.get("let")).items():
            found = self.formula(value, names)
            names |= {self._new(key, value, names)}
            self.made_of[key] = self._basis(found)
            if found.names & self.rounds.run:
                self.fixed = {**self.fixed, key: self.rounds.plain(found.expr)}
            else:
                let[key] = found
                self.rounds = self.rounds.naming({key: self.rounds.plain(found.expr)})
        when = node.get("when")
        condition = self._steady(self.formula(when, names), "when", when) if when else None
        if not own:
            return self._made(loops, let, condition, self.items(node.value["do"], names), call=False)
        body = node.value[own[0]]
        name = self.roles.get(own[0], own[0])
        if name in self.sequences:
            called = self._call(name, self.sequences[name], body, names)
            return self._made(loops, let, condition, (called,), call=False) if loops or let or condition else called
        return self._made(loops, let, condition, self._issue(name, body, names), call=False)

    def _steady(self, formula: Formula, word: str, node: Node) -> Formula:
        """Raises UserError E1002 for a formula that differs between rounds that one instruction runs."""
        if inside := sorted(formula.names & self.rounds.run):
            raise fail("E1002", f"'{word}' is the same in all rounds that an instruction runs, and cannot depend on '{inside[0]}'", node.where())
        return formula

    def _new(self, name: str, node: Node, names: Names, *, within: bool = True) -> str:
        """within: names of a sequence's caller may get another meaning."""
        if name in names - (self.outside if within else frozenset[str]()) or name in self.rounds.run or not name.isidentifier():
            raise fail("E1002", f"'{name}' has a meaning here already" if name in names | self.rounds.run else f"'{name}' is no name", node.where())
        return name

    def _made(self, loops: Mapping[str, Formula], let: Mapping[str, Formula], when: Formula | None, body: Issue | Items, *, call: bool) -> Item:
        found = Item(loops, let, when, body, call, frozenset(), frozenset())
        return replace(found, varying=varying(self.machine, found), limited=self._limited(body, when))

    def _basis(self, formula: Formula) -> frozenset[str]:
        """All names that a formula depends on."""
        return frozenset[str]().union(*(self.made_of.get(name, frozenset((name,))) for name in formula.names))

    def _limited(self, body: Issue | Items, when: Formula | None) -> frozenset[str]:
        """Names that the limited fields of a body depend on; none where it is not known whether they apply."""
        if when and self._basis(when) & self.unknown:
            return frozenset()
        if isinstance(body, Issue):
            return frozenset[str]().union(*(self._basis(body.fields[name]) for name in body.limited))
        return frozenset[str]().union(*(item.limited for item in body))

    def _call(self, name: str, node: Node, given: Node, names: Names) -> Item:
        """The items of a sequence with its arguments in place."""
        takes, known = _mapping(node.get("arguments")), _mapping(given)
        if name in self.inside:
            raise fail("E1002", f"sequence '{name}' calls itself", given.where())
        for key, value in known.items():
            if key not in takes:
                raise fail("E1002", f"sequence '{name}' takes no '{key}'", value.where(), nearest(key, takes) or f"it takes: {', '.join(takes)}")
        lacking = [key for key, value in takes.items() if key not in known and value.value is None]
        if lacking:
            raise fail("E1002", f"sequence '{name}' needs '{lacking[0]}'", given.where())
        roles = self._roles({**takes, **known}, names)
        takes, known = ({key: value for key, value in each.items() if key not in roles} for each in (takes, known))
        arguments = {key: self.formula(value, names) for key, value in known.items()}
        outer_roles, self.roles = self.roles, {**{key: role for key, role in self.roles.items() if key not in takes}, **roles}
        let = self._with_defaults(takes, arguments, names)
        rounds = self.rounds
        fixed = {key: formula.expr for key, formula in let.items() if isinstance(formula.expr, Const)}
        fixed |= {key: rounds.plain(formula.expr) for key, formula in let.items() if formula.names & rounds.run}
        self.rounds = rounds.naming({key: rounds.plain(formula.expr) for key, formula in let.items()})
        self.inside.append(name)
        seen, self.outside = self.outside, names - takes.keys()
        outer, self.made_of = self.made_of, {**self.made_of, **{key: self._basis(formula) for key, formula in let.items()}}
        with self._replacing({**{key: e for key, e in self.fixed.items() if key not in takes}, **fixed}):
            body = self.items(node.value["do"], (names | takes.keys()) - roles.keys())
        self.inside.pop()
        self.made_of, self.outside, self.roles, self.rounds = outer, seen, outer_roles, rounds
        return self._made({}, {key: formula for key, formula in let.items() if key not in fixed}, None, body, call=True)

    def _roles(self, given: Mapping[str, Node], names: Names) -> dict[str, str]:
        """Arguments that are places, constants or instructions; a number of the same name goes first."""
        known = {**{word: word for word in (*sorted(self.scene.words), *self.machine.instruction)}, **self.roles}
        return {
            key: known[node.value] for key, node in given.items() if isinstance(node.value, str) and node.value in known and node.value not in names
        }

    def _with_defaults(self, takes: Mapping[str, Node], given: Mapping[str, Formula], names: Names) -> dict[str, Formula]:
        """The value of each name, in the caller's names; a default may also name arguments that are taken before it."""
        found = dict(given)
        for key, value in takes.items():
            if key not in found:
                with self._replacing({**self.fixed, **{name: formula.expr for name, formula in found.items() if name in takes}}):
                    found[key] = self.formula(value, names)
        return found

    @contextmanager
    def _replacing(self, fixed: Mapping[str, Expr]) -> Generator[None]:
        """Names that stand for expressions, while something is read."""
        outer, self.fixed = self.fixed, fixed
        try:
            yield
        finally:
            self.fixed = outer

    def _issue(self, name: str, node: Node, names: Names) -> Issue:
        known = self.machine.instruction
        if name not in known:
            raise fail("E1002", f"there is no instruction or sequence '{name}'", node.where(), nearest(name, [*known, *self.sequences]))
        instruction, given = known[name], _mapping(node)
        stated = {f.name: f for f in instruction.fields if f.name not in instruction.match and f.role != "sync"}
        nest = _nest(MachineKey(self.machine), name)
        operands = {key: given.pop(key) for key in nest.factors if key in given} if nest and (nest.memory or self.rounds.run) else {}
        for key, value in given.items():
            if key not in stated:
                raise fail("E1002", f"{name} has no field '{key}' for a kernel to say", value.where(), nearest(key, stated))
        fields = {key: self._steady(self.formula(value, names, stated[key]), key, value) for key, value in given.items()}
        if operands or self.rounds.run:
            fields |= self._solved(name, nest, {key: self.formula(value, names).expr for key, value in operands.items()}, fields, node)
        for key, described in stated.items():
            if key not in given and described.default is None and not described.low <= 0 <= described.high:
                raise fail("E1002", f"{name} needs '{key}', which cannot be zero", node.where())
        self.issued += 1
        if self.issued > MOST_ISSUES:
            raise fail("E1002", f"a step spells out more than {MOST_ISSUES} instructions", node.where())
        latches = tuple(memory.name for memory in self.machine.memories if name in memory.latches)
        if latches:
            fields = {key: fields.get(key) or Formula(Const(unsaid(instruction, key)), frozenset()) for key in stated}
        limited = tuple(key for key, formula in fields.items() if formula.names and not self._basis(formula) & self.unknown)
        return Issue(name, fields, self._unit(instruction, fields, node), latches, limited, node.where())

    def _solved(self, name: str, nest: LoopNest | None, operands: Mapping[str, Expr], given: Mapping[str, Formula], node: Node) -> dict[str, Formula]:
        """The fields that follow from the loops that an instruction runs."""
        if nest is None:
            raise fail("E1002", f"{name} runs no loops that grow its addresses by fields of their own", node.where())
        found = solved(nest, name, operands, self.rounds, self.tables, node.where())
        twice = next((key for key in given if key in found), None)
        if twice:
            raise fail("E1002", f"{name}'s {twice} follows from the loops that it runs", node.where())
        for table in self.tables.made:
            self._check_table(table, node)
            self.unknown |= {f"{table.name}.first"}
        described = {f.name: f for f in self.machine.instruction[name].fields}
        for key, expr in found.items():
            _check_number(described[key], expr, node.where())
        return {key: formula_of(expr) for key, expr in found.items()}

    def _check_table(self, table: Constant, node: Node) -> None:
        """Raises UserError E1002 for records that depend on anything but a tile and its places."""
        for counted, exprs, known in ((True, table.over, self.scene.sized), (False, table.fields, self.scene.settled | table.over.keys())):
            strange = sorted(name for expr in exprs.values() for name in names_in(expr) - known)
            if strange:
                text = "their number depends on" if counted else "they depend on"
                raise fail("E1002", f"records are made before tiles have their places in DRAM, and {text} '{strange[0]}'", node.where())

    def _unit(self, instruction: Instruction, fields: Mapping[str, Formula], node: Node) -> str:
        """The unit that the instruction is routed to."""

        def leaf(e: Expr) -> Expr | None:
            if not isinstance(e, Name):
                return None
            return fields[e.id].expr if e.id in fields else Const(unsaid(instruction, e.id))

        found = rewrite(instruction.unit, leaf)
        if formula_of(found).names:
            raise fail("E1002", f"which unit {instruction.name} goes to depends on the tile", node.where())
        return self.machine.units[constant(found, {})].name

    def formula(self, node: Node, names: Names, described: Field | None = None) -> Formula:
        """An expression over these names, of a field also over its values' names; parameters in place."""
        spelled: Mapping[str, int] = described.names if described else {}

        def known(e: Expr) -> Expr | None:
            match e:
                case Member(base=Name(id=base), name=name) if base in self.roles:
                    return self.scene.member(self.roles[base], name, spelled, e.span)
                case Member(base=Name(id=base), name=name) if f"{base}.{name}" in names:
                    return Name(f"{base}.{name}", span=e.span)
                case Member(base=Name(id=base), name=name) if base in self.machine.instruction and base not in names:
                    return Const(self._word(base, name, e), span=e.span)
                case Name(id=name) if name in self.fixed:
                    return self._standing(name, e.span)
                case Name(id=name) if name in spelled and name not in names:
                    return Const(spelled[name], span=e.span)
                case Call(function=Member(base=Name(id=base), name=name), args=args) if base in self.roles:
                    return self.scene.element(f"{self.roles[base]}_{name}", tuple(rewrite(arg, known) for arg in args), e.span)
                case Call(function=Name(id=name), args=args) if name in self.scene.elements:
                    return self.scene.element(name, tuple(rewrite(arg, known) for arg in args), e.span)
                case Call(function=function, args=args):
                    return Call(function, tuple(rewrite(arg, known) for arg in args), span=e.span)
                case _:
                    return None

        if not isinstance(node.value, str | int):
            raise fail("E0116", "this must be an expression", node.where())
        expr = self.context.parse(node)
        if not isinstance(expr, Const):
            expr = self.context.resolve(rewrite(expr, known))
            wrong = list(problems(expr, Scope(names)))
            if wrong:
                raise UserError(*wrong)
        if described:
            _check_number(described, expr, node.span)
        return formula_of(expr)

    def _standing(self, name: str, span: Span | None) -> Expr:
        """The expression that a name stands for. Raises UserError E1002 where it cannot be said in names that are known here."""
        if hidden := self.rounds.hidden(self.fixed[name]):
            raise fail("E1002", f"'{name}' depends on '{hidden[0]}', which is an argument of the sequence here", span)
        return self.fixed[name]

    def _word(self, instruction: str, word: str, where: Expr) -> int:
        """The value that a word stands for in the fields of an instruction."""
        known = {name: value for f in self.machine.instruction[instruction].fields for name, value in f.names.items()}
        if word not in known:
            raise fail("E0107", f"no field of {instruction} has a value '{word}'", where.span, nearest(word, known))
        return known[word]

    def _latched(self) -> set[str]:
        return {m.name for m in self.machine.memories if m.latches}


def _mapping(node: Node | None) -> dict[str, Node]:
    """The members of a mapping; none of an empty value. Raises UserError E0116 for anything else."""
    if node is None or node.value is None:
        return {}
    if not isinstance(node.value, dict):
        raise fail("E0116", "this must be a mapping", node.where())
    return dict(node.items())


@functools.lru_cache(maxsize=1024)
def _nest(key: MachineKey, instruction: str) -> LoopNest | None:
    """The loops that an instruction runs, found once for all kernels."""
    return loop_nest(machine_semantics(key.machine)[instruction])


def formula_of(expr: Expr) -> Formula:
    """The expression with its names; those of functions are none."""
    return Formula(expr, names_in(expr))


def _check_number(described: Field, expr: Expr, span: Span | None) -> None:
    """Raises UserError E0304 for a number that a field does not hold."""
    if isinstance(expr, Const) and not described.low <= expr.value <= described.high:
        raise fail("E0304", f"{described.name} is {expr.value}, outside {described.low}..{described.high}", span)


def unsaid(instruction: Instruction, name: str) -> int:
    """The value of a field that a kernel does not say: its default, the value that identifies the instruction, or zero."""
    described = instruction.field(name)
    return matched_value(instruction, described) if name in instruction.match else described.default or 0
