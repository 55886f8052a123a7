"""Calls of the C functions that do floating operations (templates/engine/floating.h)."""

from collections.abc import Sequence

from toolchain.isa.c_source import CValue, Interval, c_constant
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.floating import TRUTHS
from toolchain.spec.model import FloatType

BITS32 = 32


def floating(e: ir.Float | ir.ToFloat | ir.ToInteger, values: Sequence[CValue]) -> CValue:
    """The operation on operands in C."""
    match e:
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
        case "minimum" | "maximum" | "minimum_number" | "maximum_number":
            which = f"{int(op.startswith('maximum'))}, {int(op.endswith('_number'))}"
            text = f"tw_float_extreme({', '.join(values)}, {which}, {kind.magnitude}, {last}, {kind.nan})"
            return CValue(text, _range(kind), BITS32)
        case _:
            span = Interval(0, 1) if op in TRUTHS else _range(kind)
            return CValue(f"tw_{kind}_{op}({', '.join(values)})", span, BITS32)
