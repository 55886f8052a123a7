"""Floating operations in C (templates/engine/floating.h), and sums of products that add in the order of the text, all sums of an element together:
each keeps its order, and none waits for another.

One factor is the same for all sums. The other one is packed with the sums as neighbours, and packed elements are kept while the instruction runs.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolchain.emulator.native.function import Function, Key, Pack, straddles
from toolchain.isa.c_source import CValue, Interval, c_constant
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.floating import TRUTHS
from toolchain.isa.semantics.traverse import statements
from toolchain.spec import expr as ex
from toolchain.spec.expr import Expr
from toolchain.spec.model import FloatType
from toolchain.spec.model.types import F32 as SINGLE

BITS32 = 32


def floating(e: ir.Float | ir.ToFloat | ir.ToInteger, values: Sequence[CValue]) -> CValue:
    """The operation on operands in C."""
    match e:
        case ir.ToFloat(type=kind, source=source, saturate=saturate) if source or saturate:
            if source == SINGLE and kind != SINGLE:
                return CValue(f"tw_{kind}_narrow({values[0].text}, {int(saturate)})", _range(kind), BITS32)
            if kind == SINGLE and source != SINGLE and not saturate:
                return CValue(f"tw_{source}_single({values[0].text})", _range(kind), BITS32)
            number = f"tw_{source}_number({values[0].text})" if source else f"tw_float_from_i64({values[0].text})"
            return CValue(f"tw_{kind}_{'saturated' if saturate else 'round'}({number})", _range(kind), BITS32)
        case ir.ToFloat(type=kind):
            width = max(values[0].range.bits, BITS32)
            return CValue(f"tw_{kind}_from_i{width}({values[0].text})", _range(kind), BITS32)
        case ir.ToInteger(source=source, rounding=rounding, type=kind):
            span = Interval(kind.low, kind.high)
            limits = f"{c_constant(kind.low).text}, {c_constant(kind.high).text}"
            number = f"tw_round_{rounding}(tw_{source}_number({values[0].text}))"
            return CValue(f"tw_into_i{span.bits}({number}, {limits})", span, span.bits)
        case ir.Float(op=op, type=kind):
            return _operation(op, kind, [value.text for value in values])


@dataclass(frozen=True, slots=True)
class Reduction:
    """C around and inside the loops over all terms, and the result."""

    before: list[str]
    step: list[str]
    after: list[str]
    result: CValue


def reduction(e: ir.FloatReduce, name: str, terms: Sequence[CValue]) -> Reduction:
    """terms: the term of an iteration, or the two factors of `dot_exact`. name: a prefix that nothing else has."""
    kind, values = e.type, [term.text for term in terms]
    if e.op in ("exact", "dot_exact"):
        product = " * ".join(f"tw_{kind}_number({value})" for value in values)
        after = [f"const int32_t {name} = tw_{kind}_round(tw_exact_number(&{name}_sum));"]
        return Reduction([f"tw_exact {name}_sum = {{0}};"], [f"tw_exact_add(&{name}_sum, {product});"], after, CValue(name, _range(kind), BITS32))
    start = [f"int32_t {name} = 0, {name}_some = 0;"]
    combine = "add" if e.op in ("in_order", "tree") else e.op

    def gather(value: str) -> str:
        both = _operation(combine, kind, [name, value]).text
        return f"{name} = {name}_some ? {both} : {value}; {name}_some = 1;"

    if e.op != "tree":
        return Reduction(start, [f"const int32_t {name}_term = {values[0]};", gather(f"{name}_term")], [], CValue(name, _range(kind), BITS32))
    start.append(f"int32_t {name}_tree[{e.width}]; int {name}_count = 0;")
    halve = f"for (int i = 0; i < {e.width}; i += 2 * s) {name}_tree[i] = tw_{kind}_add({name}_tree[i], {name}_tree[i + s]);"
    step = [
        f"{name}_tree[{name}_count++] = {values[0]};",
        f"if ({name}_count == {e.width}) {{",
        f"for (int s = 1; s < {e.width}; s *= 2) {halve}",
        gather(f"{name}_tree[0]"),
        f"{name}_count = 0;",
        "}",
    ]
    return Reduction(start, step, [], CValue(name, _range(kind), BITS32))


def _range(kind: FloatType) -> Interval:
    return Interval(kind.low, kind.high)


def _operation(op: str, kind: FloatType, values: list[str]) -> CValue:
    last = kind.infinity if kind.infinities else kind.greatest
    match op:
        case "from_bits":
            return CValue(f"((int32_t)(int{kind.bits}_t){values[0]})", _range(kind), BITS32)
        case "to_bits":
            span = Interval(0, (1 << kind.bits) - 1)
            return CValue(f"((int{span.bits}_t)(uint{kind.bits}_t){values[0]})", span, span.bits)
        case "neg":
            return CValue(f"tw_float_neg({values[0]}, {c_constant(kind.low).text})", _range(kind), BITS32)
        case "abs":
            return CValue(f"({values[0]} & {kind.magnitude})", Interval(0, kind.high), BITS32)
        case "is_nan":
            return CValue(f"tw_float_is_nan({values[0]}, {kind.magnitude}, {last})", Interval(0, 1), BITS32)
        case "exp" | "log" | "tanh" | "erf":
            return CValue(f"((int32_t)tw_{kind}_{op}[{values[0]} & {(1 << kind.bits) - 1}])", _range(kind), BITS32)
        case "minimum" | "maximum" | "minimum_number" | "maximum_number":
            which = f"{int(op.startswith('maximum'))}, {int(op.endswith('_number'))}"
            text = f"tw_float_extreme({', '.join(values)}, {which}, {kind.magnitude}, {last}, {kind.nan})"
            return CValue(text, _range(kind), BITS32)
        case _:
            span = Interval(0, 1) if op in TRUTHS else _range(kind)
            return CValue(f"tw_{kind}_{op}({', '.join(values)})", span, BITS32)


FLOAT_BITS = (32, 23)
"""Bits, and bits of the fraction, of a C float."""


@dataclass(frozen=True, slots=True)
class Ordered:
    """A sum over the lanes `over` for each of the lanes `kept`. shared: the factor without the lanes `kept`; own: the other one, of `access`."""

    kept: tuple[str, ...]
    over: tuple[str, ...]
    shared: Expr
    own: Expr
    access: ir.Access


def ordered_products(function: Function, e: ir.FloatReduce) -> Ordered | None:
    """The sum's parts where it has this shape, and the packed factor's memory stays as it is while the instruction runs."""
    product = e.value
    if (
        e.op != "in_order"
        or function.replicas > 1
        or (e.type.bits, e.type.fraction) != FLOAT_BITS
        or not isinstance(product, ir.Float)
        or product.op != "mul"
    ):
        return None
    written = {stmt.access.view.memory for stmt in statements(function.semantics.body) if isinstance(stmt, ir.Store)}
    for shared, own in (product.values, product.values[::-1]):
        access = _plain_load(function, own)
        if access is None or access.view.memory in written:
            continue
        lanes = [str(lane) for lane in access.lanes or ()]
        kept = tuple(lane for lane in lanes if lane not in e.over)
        if kept and len({*lanes}) == len(lanes) and {*e.over} <= {*lanes} and _free(shared, e.over):
            return Ordered(kept, tuple(e.over), shared, own, access)
    return None


def _plain_load(function: Function, e: Expr) -> ir.Access | None:
    """The access of a factor that is an element as it is stored, or in another format."""
    inner = e.value if isinstance(e, ir.ToFloat) and e.source is not None else e
    if not isinstance(inner, ir.Load) or straddles(function.machine, inner.access.view):
        return None
    return inner.access if inner.access.lanes and all(isinstance(lane, str) for lane in inner.access.lanes) else None


def _free(e: Expr, over: Sequence[str]) -> bool:
    """Whether an expression has no lanes but those of the sum."""
    for part in ex.walk(e):
        match part:
            case ir.Reduce():
                return False
            case ir.Load(access=access):
                lanes = [lane for lane in access.lanes or () if isinstance(lane, str)]
            case ir.Temp(lanes=held):
                lanes = list(held)
            case ir.Lane(name=name):
                lanes = [name]
            case _:
                continue
        if not {*lanes} <= {*over}:
            return False
    return True


def pack_of(packs: dict[Key, Pack], found: Ordered, extents: Mapping[str, int]) -> Pack:
    """The room for the packed factor: one for all sums that pack a view in the same way."""
    source = found.own.source.name if isinstance(found.own, ir.ToFloat) and found.own.source else ""
    lanes = tuple(found.over.index(lane) if lane in found.over else -1 - found.kept.index(lane) for lane in map(str, found.access.lanes or ()))
    terms, sums = (math.prod(extents[lane] for lane in names) for names in (found.over, found.kept))
    return packs.setdefault((found.access.view.name, source, lanes, terms, sums), Pack(len(packs), found.access.view, terms, sums))


def lane_nest(lanes: Sequence[str], extents: Mapping[str, int]) -> str:
    """Loops over lanes, the last one fastest."""
    return " ".join(f"for (int l_{lane} = 0; l_{lane} < {extents[lane]}; l_{lane}++)" for lane in lanes)


def ordered_lines(name: str, pack: Pack, parts: tuple[Sequence[str], Sequence[str]], places: tuple[str, str], where: str) -> list[str]:
    """The sums NAME_sum[kept]. parts: lines that set tw_x to the shared factor's bits, and to the own one's, inside the loops over their lanes.

    places: row-major numbers of the current lanes `over` and `kept`. where: the byte of the packed element in its memory.
    """
    over, kept = places
    shared, own = parts
    return [
        f"float {name}_shared[{pack.terms}] __attribute__((aligned(64))), {name}_sum[{pack.sums}] __attribute__((aligned(64)));",
        *shared[:1], "{", *shared[1:], f"{name}_shared[{over}] = tw_f32(tw_x);", "}",
        f"const int64_t {name}_key = {where};",
        f"const int64_t {name}_slot = (uint64_t){name}_key / {pack.view.element.bytes} % {pack.slots};",
        f"float *const {name}_own = {pack.name}s + {name}_slot * {pack.terms * pack.sums};",
        f"if ({pack.name}[{name}_slot] != {name}_key) {{",
        f"{pack.name}[{name}_slot] = {name}_key;",
        *own[:1], "{", *own[1:], f"{name}_own[({over}) * {pack.sums} + {kept}] = tw_f32(tw_x);", "}",
        "}",
        f"tw_ordered({name}_sum, {name}_shared, {name}_own, {pack.terms}, {pack.sums});",
    ]  # fmt: skip
