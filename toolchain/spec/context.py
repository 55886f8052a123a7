"""The context of a section: the file, the parameters' values, and the names that an expression may use."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from toolchain.spec.errors import Diagnostic, nearest
from toolchain.spec.evaluate import FUNCTIONS, constant, fold, substitute, wrong_count
from toolchain.spec.expr import Call, Const, Expr, Index, Member, Name, children, parse_expr
from toolchain.spec.model import Instruction, Machine, Memory
from toolchain.spec.yaml_nodes import Node


@dataclass(frozen=True)
class Context:
    """root: the whole file. config: the chosen configuration, or empty. names: values of parameters and derived names.
    choices: the words of each parameter that has some, whose value is a word's place among them. parsed: expressions that were read, by node."""

    root: Node
    config: str
    names: Mapping[str, int]
    choices: Mapping[str, tuple[str, ...]]
    parsed: dict[int, tuple[Node, Expr]] = field(default_factory=dict[int, tuple[Node, Expr]], compare=False, repr=False)

    def with_names(self, more: Mapping[str, int]) -> "Context":
        return replace(self, names={**self.names, **more})

    def parse(self, node: Node) -> Expr:
        """The expression a scalar holds, parameters not yet in place."""
        if isinstance(node.value, int):
            return Const(int(node.value), span=node.span)
        if id(node) not in self.parsed:  # parts of a file that several others have in common are read for each
            self.parsed[id(node)] = node, parse_expr(str(node.value), node.locate)
        return self.parsed[id(node)][1]

    def expr(self, node: Node, more: Mapping[str, int] | None = None) -> Expr:
        """The expression with parameters in place; fields and other names stay."""
        return fold(substitute(self.parse(node), self._names(more), self.choices))

    def resolve(self, expr: Expr) -> Expr:
        """A parsed expression with parameters in place."""
        return fold(substitute(expr, self.names, self.choices))

    def number(self, node: Node, more: Mapping[str, int] | None = None) -> int:
        """The value of a constant expression."""
        return constant(self.parse(node), self._names(more), self.choices)

    def _names(self, more: Mapping[str, int] | None) -> Mapping[str, int]:
        """Copied only where there is something to add: a file may hold as many expressions as names."""
        return {**self.names, **more} if more else self.names

    def optional(self, node: Node | None, default: int = 0) -> Expr:
        return self.expr(node) if node else Const(default)

    def near(self, word: str, known: Iterable[str]) -> str:
        return nearest(word, known)


@dataclass(frozen=True)
class Scope:
    """names: fields and places. registers: fields of the instruction that each latching register holds, None if unknown.
    memories: those that reads(...) and writes(...) may count; none where footprints are not known."""

    names: frozenset[str]
    registers: Mapping[str, frozenset[str] | None] = field(default_factory=dict[str, frozenset[str] | None])
    hosted: frozenset[str] = frozenset()
    memories: frozenset[str] = frozenset()


def scope_of(machine: Machine, instruction: Instruction, footprint: bool = False, more: frozenset[str] = frozenset()) -> Scope:
    """The names that expressions about an instruction may use."""
    return Scope(
        frozenset(f.name for f in instruction.fields) | more,
        {m.name: _latched(machine, m) for m in machine.memories if m.latches},
        frozenset(m.name for m in machine.memories if m.host),
        frozenset(machine.memory) if footprint else frozenset(),
    )


def _latched(machine: Machine, register: Memory) -> frozenset[str] | None:
    if not all(name in machine.instruction for name in register.latches):
        return None
    return frozenset(field.name for field in machine.latched(register))


def problems(expr: Expr, scope: Scope) -> Iterator[Diagnostic]:
    """E0107 for unknown names, E0121 for a form that does not belong here, E0123 for a wrong number of arguments."""
    if not _plainly_known(expr, scope.names):
        yield from _problems(expr, scope)


def _plainly_known(expr: Expr, names: frozenset[str]) -> bool:
    """Whether the expression is arithmetic on these names alone, as almost all are: a fifth of the time that looking for problems takes."""
    waiting = [expr]
    while waiting:
        part = waiting.pop()
        kind = type(part)
        if kind is Name:
            if part.id not in names:  # pyright: ignore
                return False
        elif kind is not Const:
            if kind is Member or kind is Index or kind is Call:
                return False
            waiting += children(part)
    return True


def _problems(expr: Expr, scope: Scope) -> Iterator[Diagnostic]:
    match expr:
        case Name(id=name):
            if name not in scope.names:
                yield Diagnostic("E0107", f"unknown name '{name}'", expr.span, nearest(name, [*scope.names, *scope.registers]))
        case Member(base=Name(id=base), name=name):
            yield from _member(base, name, expr, scope)
        case Member(base=Index(base=Name(id=base), index=index), name=name):
            yield from _member(base, name, expr, scope)
            for part in index:
                yield from _problems(part, scope)
        case Index(base=Name(id=base), index=index) if base in scope.hosted:
            for part in index:
                yield from _problems(part, scope)
        case Member() | Index():
            yield Diagnostic("E0121", "memory cannot be read here", expr.span)
        case Call(function=Name(id=name), args=args):
            yield from _call(name, args, expr, scope)
        case Call():
            yield Diagnostic("E0121", "this cannot be called", expr.span)
        case _:
            for child in children(expr):
                yield from _problems(child, scope)


def _member(base: str, name: str, expr: Expr, scope: Scope) -> Iterator[Diagnostic]:
    if base not in scope.registers:
        yield Diagnostic("E0107", f"'{base}' is not a register that holds an instruction's fields", expr.span, nearest(base, scope.registers))
    elif (known := scope.registers[base]) is not None and name not in known:
        yield Diagnostic("E0107", f"'{base}' has no field '{name}'", expr.span, nearest(name, known))


def _call(name: str, args: tuple[Expr, ...], expr: Expr, scope: Scope) -> Iterator[Diagnostic]:
    if name in ("reads", "writes") and scope.memories:
        if len(args) != 1:
            yield Diagnostic("E0123", f"{name} takes 1 argument, not {len(args)}", expr.span)
        elif not isinstance(args[0], Name) or args[0].id not in scope.memories:
            shown = args[0].id if isinstance(args[0], Name) else "this"
            yield Diagnostic("E0107", f"unknown memory '{shown}'", args[0].span, nearest(shown, scope.memories))
        return
    if name not in FUNCTIONS:
        yield Diagnostic("E0107", f"unknown function '{name}'", expr.span, nearest(name, FUNCTIONS))
        return
    if wrong := wrong_count(name, len(args)):
        yield Diagnostic("E0123", wrong, expr.span)
    for arg in args:
        yield from problems(arg, scope)
