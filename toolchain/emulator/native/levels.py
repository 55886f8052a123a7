"""Address arithmetic in nested loops: every subexpression is computed in the outermost loop that it depends on."""

from dataclasses import dataclass, field, replace

from toolchain.emulator.native.function import Function
from toolchain.isa.c_source.expressions import CValue, CWriter
from toolchain.isa.c_source.interval import SHIFT_LIMIT, Interval
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.substitution import mentions
from toolchain.isa.semantics.traverse import nodes
from toolchain.spec import expr as ex
from toolchain.spec.expr import Expr


@dataclass
class Nest:
    """Loops, outermost first, and the lines at each depth; depth 0 stands before them all."""

    function: Function
    loops: tuple[ir.For, ...]
    lines: list[list[str]] = field(default_factory=list[list[str]])
    names: dict[Expr, CValue] = field(default_factory=dict[Expr, CValue])

    def __post_init__(self) -> None:
        self.lines = [[] for _ in range(len(self.loops) + 1)]

    def depth(self, e: Expr) -> int:
        """How many of the loops the expression stands in."""
        return max((n + 1 for n, loop in enumerate(self.loops) if mentions(e, [loop.var])), default=0)

    def writer(self) -> "LevelWriter":
        """A writer for the innermost body."""
        return LevelWriter(self.function.leaf, data=False, hint=self.function.hint, nest=self, level=len(self.loops))

    def text(self, body: list[str], start: int = 0) -> list[str]:
        """The loops from depth `start` on, around the body. `s_` and `n_` name each loop's start and count."""
        result = list(self.lines[start])
        for n, loop in enumerate(self.loops[start:], start + 1):
            result += [f"for (int64_t v_{loop.var} = s_{loop.var}; v_{loop.var} < s_{loop.var} + n_{loop.var}; v_{loop.var}++) {{", *self.lines[n]]
        return [*result, *body, *["}"] * (len(self.loops) - start)]


@dataclass(frozen=True)
class LevelWriter(CWriter):
    """Writes an expression at one depth; parts that need less depth become variables there. lazy: perhaps not evaluated."""

    nest: Nest | None = None
    level: int = 0
    lazy: bool = False

    def value(self, e: Expr) -> CValue:
        """The expression, or the variable that holds it."""
        assert self.nest
        if isinstance(e, ex.Const | ir.FieldRef | ir.Var | ir.Place):
            return super().value(e)
        if e in self.nest.names:
            return self.nest.names[e]
        depth = self.nest.depth(e)
        if depth >= self.level or (self.lazy and not self._total(e)):
            return super().value(e)
        value = replace(self, level=depth, lazy=False, known={}).plain(e)
        name = self.nest.function.fresh("h")
        self.nest.lines[depth].append(f"const int64_t {name} = {value.text};")
        self.nest.names[e] = CValue(name, value.range, 64)
        return self.nest.names[e]

    def plain(self, e: Expr) -> CValue:
        """The expression itself, written at this depth."""
        return super().value(e)

    def _choose(self, condition: Expr, then: Expr, other: Expr, e: Expr) -> CValue:
        test = self.truth(condition)
        a = replace(self.assuming(condition, True), lazy=True).value(then)
        b = replace(self.assuming(condition, False), lazy=True).value(other)
        return self._arithmetic(f"({test} ? @{a.text} : @{b.text})", a.range.join(b.range), 64, e)

    def _logic(self, op: str, values: tuple[Expr, ...]) -> list[str]:
        del op
        first, *rest = values
        return [self.truth(first), *(replace(self, lazy=True).truth(value) for value in rest)]

    def _total(self, e: Expr) -> bool:
        """Whether evaluating the expression can never fault, so that doing it too early is harmless."""
        return all(self._harmless(inner) for inner in nodes(e))

    def _harmless(self, e: Expr) -> bool:
        match e:
            case ir.ControlRead() | ir.RegisterRead():
                return False
            case ex.Binary(op="//" | "%", right=right):
                return not self.bounds(right).within(0, 0) and (self.bounds(right).low > 0 or self.bounds(right).high < 0)
            case ex.Binary(op="<<" | ">>", right=right) | ir.RoundShift(amount=right):
                return self.bounds(right).within(0, SHIFT_LIMIT)
            case ex.Call():
                return False
            case _:
                return True

    def bounds(self, e: Expr) -> Interval:
        """Found without a variable: nothing is computed early for it."""
        assert self.nest
        return self.nest.function.scalar(e).range
