"""Calls of the C functions that do floating operations (templates/engine/floating.h)."""

from collections.abc import Sequence
from dataclasses import dataclass

from toolchain.isa.c_source import CValue, Interval, c_constant
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.floating import TRUTHS
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
