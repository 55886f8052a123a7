"""An operation's description: named axes, the meaning as an index expression, and the properties derived from it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from toolchain.operations.factors import ZERO, Factors, factors_of
from toolchain.spec.errors import Span
from toolchain.spec.expr import Binary, Call, Choose, Const, Expr, Index, Name, Unary, walk
from toolchain.spec.model.quantisation import SumOrder
from toolchain.spec.yaml_nodes import Node

Role = Literal["data", "weights", "bias", "factors", "result"]
Form = Literal["move", "select", "average", "aligned", "weighted", "computed", "table", "own", "real", "opaque"]
ENDING = ("shift", "shift_least", "half", "low", "high", "slope", "slope_shift", "multiplier", "scale_bits")
"""Numbers of an ending: requantisation, limits, and the slope of a leaky activation. shift, shift_least: the largest and the least of all channels.
scale_bits: of a float32, 0 where there is none."""
CHANNELS = ("multipliers", "shifts", "scales", "folded")
"""Arrays of an operation with a bias: the scales of each channel, and the bias less the weights' sum times the input's zero."""
BIAS_RANGE = ("bias_least", "bias_most", "bias_zeros")
"""Statistics over all elements: the extremes, and how many low bits are zero in each (0 where all are zero)."""
MOST_FACTOR = 127
"""The largest of the whole numbers that channels are multiplied by: they are stored as bytes."""
UNIT = "unit"
"""The whole number that stands for 1 in the scale of the weights."""


@dataclass(frozen=True)
class Operand:
    """A tensor. axes: index name to the name of its extent, outermost first. many: any number of tensors stand for it.

    flat: the graph has one axis for all behind the first.
    """

    name: str
    axes: Mapping[str, str]
    role: Role = "data"
    many: bool = False
    flat: bool = False

    @property
    def extents(self) -> tuple[str, ...]:
        return tuple(self.axes.values())


@dataclass(frozen=True)
class Attribute:
    """numbers: the names of its integers. single: whether it is one number, not a list. real: whether that is a float32, whose bits are the
    operation's number."""

    name: str
    numbers: tuple[str, ...]
    single: bool = False
    real: bool = False


@dataclass(frozen=True)
class Check:
    """that: must hold of the numbers. message: the text of the error where it does not."""

    that: Expr
    message: str


@dataclass(frozen=True)
class Stage:
    """One step of a computation: name[axes] = reduction over some axes of an expression. order: of a sum in a floating format."""

    name: str
    axes: tuple[str, ...]
    reduction: str
    over: Mapping[str, str]
    of: Expr
    order: SumOrder = field(default_factory=SumOrder)


@dataclass(frozen=True)
class Meaning:
    """of: an element of the result, as an expression over elements of the operands; none where `join`, `stages` or nothing says it.

    reduction: sum, mean, max, min, or empty. over: the reduced axes, index name to extent. outside: the value of a read past an operand's edge:
    zero, least (less than any element), or empty where none may happen. join: the operand whose tensors stand side by side. table: a function of
    one element in floating point, which becomes 256 stored values. stages: a computation in floating point.
    """

    of: Expr | None = None
    reduction: str = ""
    over: Mapping[str, str] = field(default_factory=dict[str, str])
    outside: str = ""
    join: str = ""
    table: bool = False
    stages: tuple[Stage, ...] = ()


@dataclass(frozen=True)
class Arithmetic:
    """Whole numbers that a machine's unit computes itself, in place of the meaning in floating point.

    constants: whole numbers that follow from the scales of the operands, `scale_x`, and from those before. step: the value of 1 in the exact
    result. requires: conditions on the constants. stages: the computation on stored integers less their zeros, up to the ending. factors: the
    largest that a channel may have, from the operation's numbers; MOST_FACTOR where it is left out.
    """

    constants: Mapping[str, Expr]
    step: Expr
    requires: tuple[Check, ...]
    stages: tuple[Stage, ...]
    factors: Expr | None = None


@dataclass(frozen=True)
class Term:
    """One summand of a meaning. sign: 1 or -1. operand: the data that it reads first."""

    sign: int
    of: Expr
    operand: str


@dataclass(frozen=True)
class Way:
    """Another operation that computes the same, or this one as it stands. when: for which numbers. numbers: those of the other operation that are not
    this one's own. arrays: its known tensors by their own indices, from this operation's."""

    operation: str
    when: Expr | None
    numbers: Mapping[str, Expr]
    arrays: Mapping[str, Expr]
    span: Span | None = None

    def stays(self, kind: str) -> bool:
        """Whether this is the operation as it stands."""
        return self.operation == kind and not self.numbers and not self.arrays


@dataclass(frozen=True, eq=False)
class OperationKind:
    """operands: the tensors that it reads, in the order of the ONNX function's inputs. defaults: numbers of attributes that
    may be left out. fixed: numbers that are always the same.

    floats, integers: the ONNX bodies; see graph.functions. activates: an activation may follow. placed: the operands are parts of the result in
    memory, so that nothing has to be done. viewed: the result can be read where the operand stands, if it begins there at a block. absorbed:
    neighbours take it into their own numbers and weights. binds: fusion templates as in a
    machine's section `fusion`. arithmetic: of a machine's own, where it has one. bodies: where `float` and `integer` stand. halves: stages in a
    machine's floating format, where its units compute the meaning so.
    """

    name: str
    doc: str
    operands: tuple[Operand, ...]
    result: Operand
    attributes: tuple[Attribute, ...]
    defaults: Mapping[str, int]
    fixed: Mapping[str, int]
    shape: Mapping[str, Expr]
    checks: tuple[Check, ...]
    meaning: Meaning
    activates: bool
    placed: bool
    absorbed: bool
    viewed: bool
    floats: str
    integers: str
    ways: tuple[Way, ...]
    binds: tuple[Node, ...]
    arithmetic: Arithmetic | None = None
    span: Span | None = None
    bodies: Mapping[str, Span] = field(default_factory=dict[str, Span])
    halves: tuple[Stage, ...] = ()

    @cached_property
    def operand(self) -> Mapping[str, Operand]:
        return {each.name: each for each in self.operands}

    @cached_property
    def indices(self) -> Mapping[str, str]:
        """The index names of all axes, operands' and result's, with their extents."""
        return {index: extent for each in (*self.operands, self.result) for index, extent in each.axes.items()}

    @cached_property
    def data(self) -> tuple[str, ...]:
        """Operands that are computed."""
        return tuple(each.name for each in self.operands if each.role == "data")

    @cached_property
    def known(self) -> tuple[str, ...]:
        """Operands whose values are known when compiling."""
        return tuple(each.name for each in self.operands if each.role != "data")

    @cached_property
    def weights(self) -> str:
        """The operand that is stored in a scale of its own; empty where there is none."""
        return next((each.name for each in self.operands if each.role == "weights"), "")

    @cached_property
    def bias(self) -> str:
        return next((each.name for each in self.operands if each.role == "bias"), "")

    @cached_property
    def channel_factors(self) -> str:
        """The operand of whole numbers that channels are multiplied by, stored as they are; empty where there is none."""
        return next((each.name for each in self.operands if each.role == "factors"), "")

    @cached_property
    def fitted(self) -> bool:
        """Whether it is a layer, sums of products with weights and a bias, which can be fitted to samples; a norm's weights only scale."""
        return bool(self.bias) and self.form == "weighted"

    @cached_property
    def form(self) -> Form:
        """How stored integers take part, which settles scales and requantisation; read off the meaning."""
        meaning = self.meaning
        if self.arithmetic is not None:
            return "own"
        if meaning.stages:
            return "real"
        if meaning.table:
            return "table"
        if meaning.join:
            return "move"
        if meaning.of is None:
            return "opaque"
        if meaning.reduction in ("max", "min"):
            return "select"
        if meaning.reduction == "mean":
            return "average"
        if not meaning.reduction and isinstance(meaning.of, Index):
            return "move"
        if not meaning.reduction and _selects(meaning.of):
            return "select"
        return self._arithmetic()

    def _arithmetic(self) -> Form:
        if len(self.terms) > 1:
            return "aligned"
        return "weighted" if self.weights else "computed"

    @cached_property
    def factors(self) -> Factors:
        """How often each operand is a factor of every summand. Raises UserError E1301 where scales do not meet."""
        if self.form not in ("weighted", "computed") or self.meaning.of is None:
            return ZERO
        unit = {UNIT: self.weights} if self.weights else {}
        return factors_of(self.meaning.of, {**{name: name for name in self.operand}, **unit})

    @cached_property
    def copies(self) -> bool:
        """Whether every element of the result is an element of an operand, or zero: all share a scale."""
        return self.form in ("move", "select")

    @cached_property
    def moves(self) -> bool:
        return self.form == "move"

    @cached_property
    def scaled(self) -> bool:
        """Whether exact sums are requantised."""
        return self.form in ("average", "aligned", "weighted", "computed", "own")

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """The summands of the meaning, each with its sign."""
        return () if self.meaning.of is None else tuple(self._terms(self.meaning.of, 1))

    def _terms(self, expr: Expr, sign: int) -> Iterator[Term]:
        match expr:
            case Binary(op="+" | "-" as op, left=left, right=right):
                yield from self._terms(left, sign)
                yield from self._terms(right, sign if op == "+" else -sign)
            case Unary(op="-", value=value):
                yield from self._terms(value, -sign)
            case _:
                yield Term(sign, expr, next((read for read in self.reads(expr) if read in self.data), ""))

    def reads(self, expr: Expr) -> tuple[str, ...]:
        """The operands that an expression reads, in its order."""
        found = (e.base.id for e in walk(expr) if isinstance(e, Index) and isinstance(e.base, Name))
        return tuple(dict.fromkeys(name for name in found if name in self.operand))

    @cached_property
    def factor(self) -> Expr | None:
        """The condition of a meaning `product if condition else 0`."""
        match self.meaning.of:
            case Choose(condition=condition, other=Const(value=0)):
                return condition
            case _:
                return None

    @cached_property
    def products(self) -> tuple[tuple[str, ...], ...]:
        """Extents whose product counts multiply-accumulates: of the meaning, or of each stage of own arithmetic that sums products of operands."""
        if self.arithmetic is not None:
            return tuple(self._points(each) for each in self.arithmetic.stages if each.reduction == "sum" and self._multiplies(each.of))
        return ((*self.result.extents, *self.meaning.over.values()),) if self.meaning.over and self.form in ("weighted", "computed") else ()

    def _points(self, stage: Stage) -> tuple[str, ...]:
        """Extents of all loops of a stage."""
        indices = {index: extent for each in (*self.operands, self.result) for index, extent in each.axes.items()}
        return (*(indices[index] for index in stage.axes), *stage.over.values())

    def _multiplies(self, expr: Expr) -> bool:
        """Whether an expression is a product of two operands' elements."""
        return isinstance(expr, Binary) and expr.op == "*" and all(self.reads(part) for part in (expr.left, expr.right))

    @cached_property
    def unit(self) -> bool:
        """Whether the meaning names the integer that stands for 1."""
        return self.meaning.of is not None and any(isinstance(e, Name) and e.id == UNIT for e in walk(self.meaning.of))

    @cached_property
    def multipliers(self) -> tuple[str, ...]:
        """Numbers that stored operands are multiplied by, so that their scales meet."""
        if self.form == "aligned":
            return tuple(f"multiply_{term.operand}" for term in self.terms)
        return ("multiply",) if self.form == "average" else ()

    @cached_property
    def zeros(self) -> tuple[str, ...]:
        """Zero points of the computed operands and of the result, where tensors have them."""
        if self.scaled:
            return (*(f"zero_{name}" for name in self.data), "zero_y")
        return tuple(f"zero_{name}" for name in self.data) if self.copies and self.meaning.outside == "zero" else ()

    @cached_property
    def in_place(self) -> tuple[str, ...]:
        """Computed operands over which the result may be written: each element is read for the result's element of the same place alone."""
        if self.meaning.of is None or self.meaning.reduction or self.meaning.stages:
            return ()
        same = tuple(self.result.axes)
        reads = [e for e in walk(self.meaning.of) if isinstance(e, Index) and isinstance(e.base, Name)]
        moved = {e.base.id for e in reads if isinstance(e.base, Name) and tuple(i.id if isinstance(i, Name) else "" for i in e.index) != same}
        return tuple(name for name in self.data if name not in moved and self.operand[name].extents == self.result.extents)

    @cached_property
    def extents(self) -> tuple[str, ...]:
        """Names of all extents, each once."""
        return tuple(dict.fromkeys(name for each in (*self.operands, self.result) for name in each.extents))

    @cached_property
    def constants(self) -> tuple[str, ...]:
        """Whole numbers that the machine's own arithmetic takes from scales."""
        return tuple(self.arithmetic.constants) if self.arithmetic else ()

    @cached_property
    def loose_numbers(self) -> tuple[str, ...]:
        """Numbers that do not depend on how integers are stored."""
        return (*self.extents, *(number for each in self.attributes for number in each.numbers), *self.fixed, *self.shape)

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """Every number that kernels may name."""
        own = (*self.loose_numbers, *self.multipliers, *self.constants)
        ends = (*(ENDING if self.scaled else ()), *self.zeros, *(BIAS_RANGE if self.bias else ()), *((UNIT,) if self.unit else ()))
        return tuple(dict.fromkeys((*own, *ends)))

    @cached_property
    def arrays(self) -> tuple[str, ...]:
        """Every array that kernels may name."""
        return (*self.known, *(("table",) if self.form == "table" else ()), *(CHANNELS if self.bias else ()))

    @cached_property
    def pads(self) -> tuple[str, ...]:
        """Numbers that say how far reads reach past the first operand's edges: top, left, bottom, right. Empty where it has none, or moves."""
        named = next((each.numbers for each in self.attributes if each.name == "pads"), ())
        before = {e.right.id for e in walk(self.meaning.of or Const(0)) if isinstance(e, Binary) and e.op == "-" and isinstance(e.right, Name)}
        return named if not self.moves and len(named) == 4 and before >= set(named[:2]) else ()


def _selects(expr: Expr) -> bool:
    """Whether an expression is one of several elements: the largest or the least, or the one of its place."""
    match expr:
        case Choose(condition=condition, then=then, other=other) if not any(isinstance(e, Index) for e in walk(condition)):
            return all(isinstance(part, Index) or _selects(part) for part in (then, other))
        case Call(function=Name(id="max" | "min"), args=arguments):
            return all(isinstance(part, Index) or _selects(part) for part in arguments)
        case _:
            return False
