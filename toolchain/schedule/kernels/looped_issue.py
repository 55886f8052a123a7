"""Instructions that run loops of a tile by themselves: addresses as sums of loops times numbers, taken apart, and the factors and records solved
from them."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from toolchain.isa.semantics.loops import LoopNest
from toolchain.isa.semantics.traverse import fold
from toolchain.schedule.kernels.kernel import Constant
from toolchain.spec.errors import Span, fail
from toolchain.spec.expr import Binary, Call, Choose, Const, Expr, Name, Unary, rewrite, value_names, walk

ONE, ZERO = Const(1), Const(0)

Exprs = Mapping[str, Expr]


def mentions(expr: Expr, names: Collection[str]) -> bool:
    """Whether one of the names occurs."""
    return any(isinstance(e, Name) and e.id in names for e in walk(expr))


def growth(expr: Expr, loop: str) -> Expr | None:
    """How much larger the value is in each round of a loop than in the one before; None where that differs from round to round.

    A choice may depend on anything but the loop.
    """
    if not mentions(expr, (loop,)):
        return ZERO
    match expr:
        case Name():
            return ONE
        case Unary(op="-", value=value):
            grown = growth(value, loop)
            return grown and minus(ZERO, grown)
        case Binary(op="+" | "-" as op, left=left, right=right):
            one, two = growth(left, loop), growth(right, loop)
            return None if one is None or two is None else plus(one, two) if op == "+" else minus(one, two)
        case Binary(op="*", left=left, right=right) if not (mentions(left, (loop,)) and mentions(right, (loop,))):
            scaled, factor = (left, right) if mentions(left, (loop,)) else (right, left)
            grown = growth(scaled, loop)
            return grown and times(grown, factor)
        case Choose(condition=condition, then=then, other=other) if not mentions(condition, (loop,)):
            one, two = growth(then, loop), growth(other, loop)
            return None if one is None or two is None else chosen(condition, one, two)
        case _:
            return None


def beginning(expr: Expr, loops: Collection[str]) -> Expr:
    """The value in the first round of these loops, each of which counts from 0."""

    def change(e: Expr) -> Expr | None:
        match e:
            case Name(id=name) if name in loops:
                return ZERO
            case Binary(op="+" | "-" | "*" as op, left=left, right=right):
                return {"+": plus, "-": minus, "*": times}[op](rewrite(left, change), rewrite(right, change))
            case Choose(condition=condition, then=then, other=other):
                return chosen(rewrite(condition, change), rewrite(then, change), rewrite(other, change))
            case Call(function=function, args=args):
                return Call(function, tuple(rewrite(arg, change) for arg in args), span=e.span)
            case _:
                return None

    return rewrite(expr, change)


def plus(a: Expr, b: Expr) -> Expr:
    """a + b"""
    return b if a == ZERO else a if b == ZERO else fold(Binary("+", a, b))


def minus(a: Expr, b: Expr) -> Expr:
    """a - b; `0 - (0 - c)` is c."""
    match a, b:
        case _, Const(value=0):
            return a
        case Const(value=0), Binary(op="-", left=Const(value=0), right=inner):
            return inner
        case _:
            return fold(Binary("-", a, b))


def times(a: Expr, b: Expr) -> Expr:
    """a * b"""
    if ZERO in (a, b):
        return ZERO
    return b if a == ONE else a if b == ONE else fold(Binary("*", a, b))


def chosen(condition: Expr, then: Expr, other: Expr) -> Expr:
    """`then if condition else other`"""
    if isinstance(condition := fold(condition), Const):
        return then if condition.value else other
    return then if then == other else Choose(condition, then, other)


@dataclass(frozen=True)
class Rounds:
    """The loops around an instruction, counts by variable. around: each of their rounds issues it anew. over: it runs them by itself, its addresses
    grow by a field, as long as it has fields. records: it runs them by itself, a record of a control memory says the addresses of a round.

    meaning: the expressions that the names of `let` and of arguments stand for, in names of the tile and of loops. twice: variables of two loops
    around it, one of which a sequence has.
    """

    around: Exprs = field(default_factory=dict[str, Expr])
    over: Exprs = field(default_factory=dict[str, Expr])
    records: Exprs = field(default_factory=dict[str, Expr])
    meaning: Exprs = field(default_factory=dict[str, Expr])
    twice: frozenset[str] = frozenset()

    @property
    def run(self) -> frozenset[str]:
        """The variables of loops that instructions run by themselves."""
        return frozenset((*self.over, *self.records))

    def plain(self, expr: Expr) -> Expr:
        """The expression in names of the tile and of loops alone."""

        def change(e: Expr) -> Expr | None:
            match e:
                case Name(id=name):
                    return self.meaning.get(name)
                case Call(function=function, args=args):
                    return Call(function, tuple(rewrite(arg, change) for arg in args), span=e.span)
                case _:
                    return None

        return rewrite(expr, change)

    def hidden(self, expr: Expr) -> list[str]:
        """Names in a plain expression that mean something else here: arguments that are called like numbers of the tile."""
        return sorted(name for name in names_in(expr) if self.meaning.get(name, Name(name)) != Name(name))

    def naming(self, let: Exprs) -> "Rounds":
        """With more names, each in terms of those before."""
        return replace(self, meaning={**self.meaning, **let})

    def within(self, most: int) -> "Rounds":
        """With `most` loops whose addresses grow by a field; records hold those inside them."""
        loops = [*self.over.items()]
        return replace(self, over=dict(loops[:most]), records={**dict(loops[most:]), **self.records})

    def counting(self, kind: str, name: str, count: Expr) -> "Rounds":
        """With one more loop inside the others. kind: around, over or records. count: in names that are known here."""
        count = self.plain(count)
        known: Exprs = {"around": self.around, "over": self.over, "records": self.records}[kind]
        meaning = {key: expr for key, expr in self.meaning.items() if key != name}
        return replace(self, **{kind: {**known, name: count}}, meaning=meaning, twice=self.twice | (self.around.keys() & {name}))


ALONE = Rounds()
"""An instruction that is issued once."""


@dataclass
class RecordTables:
    """The tables of records that a kernel's instructions ask for, equal ones once."""

    made: list[Constant] = field(default_factory=list[Constant])

    def name_of(self, memory: str, over: Exprs, fields: Exprs) -> str:
        """The name of the table with this content."""
        for known in self.made:
            if (known.memory, [*known.over.items()], known.fields) == (memory, [*over.items()], fields):
                return known.name
        self.made.append(Constant(f"records {len(self.made)}", memory, over, fields))
        return self.made[-1].name


def solved(nest: LoopNest, instruction: str, operands: Exprs, rounds: Rounds, tables: RecordTables, span: Span) -> dict[str, Expr]:
    """The fields of an instruction that reads and writes at these addresses in each round of the loops that it runs.

    operands: addresses by operand; of the others nothing matters. Raises UserError E1002 where its fields cannot say so.
    """
    rounds = rounds.within(len(nest.counts)) if nest.memory else rounds
    operands = {operand: _shown(rounds, operand, rounds.plain(address), span) for operand, address in operands.items()}
    spare = len(nest.counts) - len(rounds.over)
    if spare < 0:
        text = f"{instruction} grows addresses in {len(nest.counts)} loop{'s' * (len(nest.counts) > 1)}, and 'over' has {len(rounds.over)}"
        raise fail("E1002", text, span)
    if rounds.records and not nest.memory:
        raise fail("E1002", f"{instruction} goes over no records", span)
    for loop, count in (*rounds.over.items(), *rounds.records.items()):
        _shown(rounds, loop, count, span)
    found = dict(zip(nest.counts, [ONE] * spare + [*rounds.over.values()], strict=True))
    for operand, factors in nest.factors.items():
        address = operands.get(operand, ZERO)
        grown = [_growth(operand, address, loop) for loop in rounds.over]
        found |= dict(zip(factors, [ZERO] * spare + grown, strict=True))
    starts = {operand: beginning(address, rounds.over.keys()) for operand, address in operands.items()}
    return found | (_recorded(nest, starts, rounds, tables, span) if nest.memory else starts)


def _shown(rounds: Rounds, word: str, expr: Expr, span: Span) -> Expr:
    """The plain expression. Raises UserError E1002 for one in names that mean something else where the instruction stands."""
    if hidden := rounds.hidden(expr):
        raise fail("E1002", f"'{word}' depends on '{hidden[0]}', which is an argument of the sequence here", expr.span or span)
    return expr


def _growth(operand: str, address: Expr, loop: str) -> Expr:
    grown = growth(address, loop)
    if grown is None:
        raise fail("E1002", f"'{operand}' does not grow evenly from round to round of '{loop}'", address.span)
    return grown


def _recorded(nest: LoopNest, starts: Exprs, rounds: Rounds, tables: RecordTables, span: Span) -> dict[str, Expr]:
    """Where the instruction's records stand: a table has those of all rounds around it in which they differ."""
    outer = {loop: count for loop, count in rounds.around.items() if any(mentions(e, (loop,)) for e in starts.values())}
    over = {**outer, **rounds.records}
    for loop, count in over.items():
        if loop in rounds.twice or mentions(count, {*rounds.around, *rounds.run}):
            raise fail("E1002", f"records are counted by '{loop}', whose count differs from round to round", count.span or span)
    name = tables.name_of(nest.memory, over, starts)
    skipped: Expr = ZERO
    for loop, count in outer.items():
        skipped = plus(times(skipped, _shown(rounds, loop, count, span)), Name(loop))
    size = product(rounds.records.values())
    first = plus(Name(f"{name}.first"), times(skipped, size))
    return {nest.first: first, nest.stop: plus(first, size)}


def product(counts: Iterable[Expr]) -> Expr:
    """All of them multiplied."""
    found: Expr = ONE
    for count in counts:
        found = times(found, count)
    return found


def names_in(expr: Expr) -> frozenset[str]:
    """The names of values in an expression."""
    return frozenset(value_names(expr))
