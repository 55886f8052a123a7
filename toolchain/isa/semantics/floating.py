"""Floating values in the semantics language: which expressions are floating, and the operations that stand for `+`, `<` and calls on them."""

from collections.abc import Callable, Sequence
from typing import NoReturn

from toolchain.isa.semantics import ir
from toolchain.isa.semantics.access import Scope
from toolchain.isa.semantics.traverse import fold
from toolchain.spec import expr as ex
from toolchain.spec.errors import Span, fail
from toolchain.spec.expr import Expr
from toolchain.spec.float_functions import FUNCTIONS, WIDEST, is_exact
from toolchain.spec.model import FloatType, ScalarType

ARITHMETIC = {"+": "add", "-": "sub", "*": "mul"}
ORDER = {"<": ("lt", False), "<=": ("le", False), ">": ("lt", True), ">=": ("le", True)}
"""Each comparison: the operation, and whether its operands change places."""
TRUTHS = frozenset({"lt", "le", "eq", "is_nan"})
"""Operations that give 0 or 1."""
REDUCTIONS = {
    "sum_in_order": "in_order", "sum_tree": "tree", "sum_exact": "exact", "dot_exact": "dot_exact",
    "reduce_minimum": "minimum", "reduce_maximum": "maximum",
    "reduce_minimum_number": "minimum_number", "reduce_maximum_number": "maximum_number",
}  # fmt: skip
"""Reductions of floating values, and their operations in the IR."""
MOST_WIDE = 1 << 12
"""Terms of a tree."""
CALLS = dict.fromkeys(FUNCTIONS, 1) | {
    "minimum": 2, "maximum": 2, "minimum_number": 2, "maximum_number": 2, "is_nan": 1, "divide": 2, "reciprocal": 1, "sqrt": 1, "fma": 3,
}  # fmt: skip
"""Functions of floating values alone, and how many they take."""


class Floating:
    """Knows the types of one instruction's names."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def type_of(self, e: Expr) -> FloatType | None:
        """The format of a resolved expression; None is an integer, or an element as a whole."""
        match e:
            case ir.Load(access=access) if access.lanes is not None:
                return _floating(access.view.element.scalar)
            case ir.ControlRead(access=access, member=""):
                return _floating(access.view.element.scalar)
            case ir.Temp(name=name):
                return _floating(self.scope.temps[name].type)
            case ir.Float(op=op, type=kind):
                return None if op in TRUTHS or op == "to_bits" else kind
            case ir.ToFloat(type=kind) | ir.FloatReduce(type=kind):
                return kind
            case ex.Choose(then=value) | ir.Lookup(value=value):
                return self.type_of(value)
            case _:
                return None

    def integer(self, e: Expr, span: Span | None = None) -> Expr:
        """The expression itself. Raises UserError E0226 for a floating one."""
        if kind := self.type_of(e):
            hint = "round it: round_half_even(x, i8), or take its bits: to_bits(x)"
            raise fail("E0226", f"this takes an integer, not {kind}", e.span or span, hint)
        return e

    def lower(self, e: Expr) -> Expr:
        """An operator whose operands are resolved, on floating values where they are. Raises UserError E0226."""
        match e:
            case ex.Binary(op=op, left=left, right=right) if kind := self._common(left, right, e.span):
                a, b = self.converted(left, kind), self.converted(right, kind)
                return ir.Float(ARITHMETIC[op], kind, (a, b), span=e.span) if op in ARITHMETIC else self._undefined(op, kind, e.span)
            case ex.Compare(op=op, left=left, right=right) if kind := self._common(left, right, e.span):
                return self._compare(op, self.converted(left, kind), self.converted(right, kind), kind, e.span)
            case ex.Unary(op=op, value=value) if kind := self.type_of(value):
                return ir.Float("neg", kind, (value,), span=e.span) if op == "-" else self._undefined(op, kind, e.span)
            case ex.Choose(condition=condition, then=then, other=other):
                self.integer(condition, e.span)
                if isinstance(decided := fold(condition), ex.Const) and self.type_of(then) != self.type_of(other):
                    return then if decided.value else other  # a parameter chooses the format
                kind = self._common(then, other, e.span)
                return ex.Choose(condition, self.converted(then, kind), self.converted(other, kind), span=e.span) if kind else e
            case ex.Logic(values=values):
                for value in values:
                    self.integer(value, e.span)
                return e
            case _:
                return e

    def _compare(self, op: str, a: Expr, b: Expr, kind: FloatType, span: Span | None) -> Expr:
        if op in ORDER:
            name, swapped = ORDER[op]
            return ir.Float(name, kind, (b, a) if swapped else (a, b), span=span)
        equal = ir.Float("eq", kind, (a, b), span=span)
        return equal if op == "==" else ex.Unary("not", equal, span=span)

    def _undefined(self, op: str, kind: FloatType, span: Span | None) -> NoReturn:
        raise fail("E0226", f"'{op}' is not defined for {kind}", span)

    def _common(self, left: Expr, right: Expr, span: Span | None) -> FloatType | None:
        kinds = [kind for e in (left, right) if (kind := self.type_of(e))]
        if len(kinds) == 2 and kinds[0] != kinds[1]:
            raise fail("E0226", f"{kinds[0]} and {kinds[1]} meet here", span, f"convert one: {kinds[0]}(x)")
        return kinds[0] if kinds else None

    def converted(self, e: Expr, kind: ScalarType, span: Span | None = None, place: str = "") -> Expr:
        """The value as one of a type: itself, or a constant that the format has. place: that it goes to. Raises UserError E0226."""
        found, wanted = self.type_of(e), f"{place} is {kind}" if place else f"{kind} is wanted here"
        if found is not None and found != kind:
            hint = f"convert it: {kind}(x)" if isinstance(kind, FloatType) else f"round it: round_half_even(x, {kind})"
            raise fail("E0226", f"{wanted}, not {found}", e.span or span, hint)
        if found is not None or not isinstance(kind, FloatType):
            return e
        constant = fold(e)
        if not isinstance(constant, ex.Const):
            hint = f"convert it: {kind}(x), or read its bits: from_bits(x, {kind})"
            raise fail("E0226", f"{wanted}, not an integer", e.span or span, hint)
        if not is_exact(constant.value, kind):
            hint = f"write {kind}({constant.value}) for the nearest one"
            raise fail("E0226", f"{kind} does not have the number {constant.value}", e.span or span, hint)
        return ir.ToFloat(constant, kind, span=e.span)

    def call(self, name: str, values: Sequence[Expr], span: Span | None) -> Expr:
        """A function of CALLS."""
        kinds = [kind for e in values if (kind := self.type_of(e))]
        if not kinds or any(kind != kinds[0] for kind in kinds):
            raise fail("E0226", f"{name} takes floating values of one type", span)
        operands = tuple(self.converted(e, kinds[0]) for e in values)
        if name in FUNCTIONS and kinds[0].bits > WIDEST:
            hint = f"convert the value, as in {kinds[0]}({name}(bf16(x))), or write the unit's own arithmetic"
            raise fail("E0226", f"{name} is not defined for {kinds[0]}", span, hint)
        if name == "reciprocal":
            return ir.Float("div", kinds[0], (ir.ToFloat(ex.Const(1), kinds[0]), *operands), span=span)
        return ir.Float("div" if name == "divide" else name, kinds[0], operands, span=span)

    def reduction(self, name: str, values: Sequence[Expr], span: Span | None) -> Expr:
        """`sum_in_order(x)`, `sum_tree(x, 8)`, `dot_exact(a, b)`: over the lanes that the statement does not keep."""
        first, *others = values
        kind = self._common(first, others[0], span) if name == "dot_exact" else self.type_of(first)
        if kind is None:
            raise fail("E0226", f"{name} takes floating values", span)
        if name == "dot_exact":
            first = ir.Float("mul", kind, (self.converted(first, kind), self.converted(others[0], kind)), span=span)
        width = _width(fold(others[0]), span) if name == "sum_tree" else 0
        return ir.FloatReduce(REDUCTIONS[name], first, (), kind, width, span=span)

    def plain(self, name: str, values: Sequence[Expr], span: Span | None) -> Expr | None:
        """A call of an integer function that floating values have too, or None for one of integers. Raises UserError E0226."""
        kinds = [kind for e in values if (kind := self.type_of(e))]
        if not kinds:
            return None
        if name == "abs":
            return ir.Float("abs", kinds[0], (values[0],), span=span)
        hint = HINTS.get(name, "")
        raise fail("E0226", f"'{name}' is not defined for {kinds[0]}", span, hint)

    def to_format(self, e: Expr, kind: FloatType, span: Span | None, saturate: bool = False) -> Expr:
        """`f32(x)`, `saturate(x, f8e4m3)`: an integer or another format's value, rounded to the nearest."""
        found = self.type_of(e)
        return e if found == kind and not saturate else ir.ToFloat(e, kind, found, saturate, span=span)

    def from_bits(self, e: Expr, kind: ScalarType, span: Span | None) -> Expr:
        """`from_bits(x, f32)`: the value whose bits an integer spells, the bits above left aside."""
        if not isinstance(kind, FloatType):
            raise fail("E0226", f"{kind} is no floating format", span)
        return ir.Float("from_bits", kind, (self.integer(e, span),), span=span)

    def to_bits(self, e: Expr, span: Span | None) -> Expr:
        """`to_bits(x)`: an integer from 0 up."""
        if kind := self.type_of(e):
            return ir.Float("to_bits", kind, (e,), span=span)
        raise fail("E0226", "this is an integer already", e.span or span)

    def rounded(self, e: Expr, rounding: str, kind: ScalarType, span: Span | None) -> Expr:
        """`round_half_even(x, i8)`: the nearest integer, saturated."""
        source = self.type_of(e)
        if source is None or isinstance(kind, FloatType):
            raise fail("E0226", "this rounds a floating value to an integer type", span)
        return ir.ToInteger(e, source, rounding, kind, span=span)


HINTS = {
    "min": "say which: minimum (a NaN stays) or minimum_number (a NaN gives way)",
    "max": "say which: maximum (a NaN stays) or maximum_number (a NaN gives way)",
    "sum": "say in which order: sum_in_order, sum_tree or sum_exact",
    "dot": "say in which order: sum_in_order(a * b), sum_tree(a * b, n), or dot_exact(a, b)",
    "reduce_min": "say which: reduce_minimum or reduce_minimum_number",
    "reduce_max": "say which: reduce_maximum or reduce_maximum_number",
}


def _width(e: Expr, span: Span | None) -> int:
    if isinstance(e, ex.Const) and 2 <= e.value <= MOST_WIDE and e.value & (e.value - 1) == 0:
        return e.value
    raise fail("E0226", f"a tree adds a power of two terms, 2 to {MOST_WIDE}", e.span or span)


def _floating(kind: ScalarType) -> FloatType | None:
    return kind if isinstance(kind, FloatType) else None


def within(e: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """The node with its parts rewritten."""
    return ex.rewrite(e, lambda inner: None if inner is e else change(inner))
