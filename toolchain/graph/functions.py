"""Operations as ONNX local functions: in floating point, and in a machine's integers spelled out in standard operators.

The name of a function is KIND__VARIANT: the variant is the activation, or the number of operands that stand for one.
"""

import re
from functools import cache
from typing import Any

import onnx
import onnx_ir as ir
from onnx import parser

from toolchain.graph.numerics import Numerics
from toolchain.graph.versions import OPSET
from toolchain.operations.kind import UNIT, OperationKind

FUSED, INTEGER = "tilewright.fused", "tilewright.integer"
_PARSE: Any = parser
ACTIVATIONS = {"": "y = Identity (r)", "relu": "y = Relu (r)", "leaky": "y = LeakyRelu <alpha: float = @alpha> (r)"}
CLIP = """minimum32 = Constant <value_float: float = @minimum> ()
  maximum32 = Constant <value_float: float = @maximum> ()
  low = CastLike (minimum32, r)
  high = CastLike (maximum32, r)
  y = Clip (r, low, high)"""
OF_ACTIVATION = {"leaky": ("alpha",), "clip": ("minimum", "maximum")}
"""Attributes that an activation adds to a float function."""
ROUND = {
    "half_up": "half = Constant <value = double {0.5}> ()\n  moved = Add (exact, half)\n  whole = Floor (moved)",
    "half_even": "whole = Round (exact)",
    "half_away": "half = Constant <value = double {0.5}> ()\n  size1 = Abs (exact)\n  moved = Add (size1, half)\n  grown = Floor (moved)\n"
    "  sign = Sign (exact)\n  whole = Mul (grown, sign)",
    "floor": "whole = Floor (exact)",
}
TABLE = """  place64 = Cast <to = 7> (x)
  first = Constant <value = int64 {128}> ()
  place = Add (place64, first)
  y = Gather <axis = 0> (table, place)"""


def kind_of(node: ir.Node) -> str:
    """The name of a fused or integer call's operation; an empty string for other nodes."""
    return node.op_type.split("__")[0] if node.domain in (FUSED, INTEGER) else ""


def variant_of(node: ir.Node) -> str:
    return node.op_type.partition("__")[2]


@cache
def fused_function(kind: OperationKind, variant: str) -> ir.Function:
    """The floating-point function."""
    activation = CLIP if variant == "clip" else ACTIVATIONS["" if kind.meaning.join else variant]
    attributes = (*(each.name for each in kind.attributes), *(() if kind.meaning.join else OF_ACTIVATION.get(variant, ())))
    return _function(FUSED, _name(kind, variant), attributes, _operands(kind, variant), f"{_body(kind.floats, kind, variant)}\n  {activation}")


@cache
def integer_function(kind: OperationKind, variant: str, numerics: Numerics) -> ir.Function:
    """The function of the same name in a machine's arithmetic; see `requantise` for what its attributes mean."""
    operands, named = _operands(kind, variant), tuple(each.name for each in kind.attributes)
    if kind.copies:
        body = re.sub(r"(?m)^(\s*)r = ", r"\1y = ", _body(kind.floats, kind, variant))
        return _function(INTEGER, _name(kind, variant), named, operands, body)
    if kind.form == "table":
        return _function(INTEGER, _name(kind, variant), (), (*operands, "table"), TABLE)
    channels, leaky = bool(kind.bias) and numerics.form == "multiplier", variant == "leaky"
    own = (*(("bias_shift",) if kind.bias else ()), *((UNIT,) if kind.unit else ()), *kind.multipliers)
    ends = (*(() if channels else ("shift",)), *(("slope", "slope_shift") if leaky else ()), "low", "high")
    behind = _behind(kind) if channels else 0
    ending = _private(f"{_total(kind)}\n{requantise('total', numerics, leaky, channels, behind)}")
    body = f"{_body(kind.integers, kind, variant)}\n{ending}"
    return _function(INTEGER, _name(kind, variant), (*named, *own, *ends), (*operands, *(("multiplier", "divisor") if channels else ())), body)


def _private(text: str) -> str:
    """The text with names of its own, so that a description's body may use any."""
    for name in sorted(set(re.findall(r"(?m)^\s*(\w+) =", text)) - {"y"}):
        text = re.sub(rf"(?<!@)\b{name}\b", f"q_{name}", text)
    return text


def _name(kind: OperationKind, variant: str) -> str:
    return f"{kind.name}__{variant}" if variant else kind.name


def _operands(kind: OperationKind, variant: str) -> tuple[str, ...]:
    joined = kind.meaning.join
    return tuple(f"{joined}{number}" for number in range(int(variant))) if joined else tuple(each.name for each in kind.operands)


def _body(text: str, kind: OperationKind, variant: str) -> str:
    """The description's own text, every tensor of an operand that stands for many in it."""
    joined = kind.meaning.join
    return text.replace(f"({joined})", f"({', '.join(_operands(kind, variant))})") if joined else text


def _behind(kind: OperationKind) -> int:
    """Axes of the result behind the one that the bias stands along."""
    axes = list(kind.result.axes)
    return len(axes) - 1 - max(axes.index(index) for index in kind.operand[kind.bias].axes)


def _total(kind: OperationKind) -> str:
    """From `products` to `total`: the bias, the multiplier of an average, or the summands by their multipliers."""
    if kind.form == "aligned":
        return _summands(kind)
    if kind.form == "average":
        return "  multiply = Constant <value_int: int = @multiply> ()\n  wide = Cast <to = 7> (products)\n  total = Mul (wide, multiply)"
    return _biased(_behind(kind), kind.bias) if kind.bias else "  total = Identity (products)"


def _biased(behind: int, operand: str) -> str:
    axes = ", ".join(map(str, range(1, behind + 1)))
    column = f"  axes = Constant <value = int64[{behind}] {{{axes}}}> ()\n  column = Unsqueeze (offset, axes)\n"
    return f"""{_power("bias_shift", "factor", 6)}
  offset = Mul ({operand}, factor)
{column if behind else ""}  total = Add (products, {"column" if behind else "offset"})"""


def _summands(kind: OperationKind) -> str:
    lines: list[str] = []
    for number, (term, multiplier) in enumerate(zip(kind.terms, kind.multipliers, strict=True)):
        lines += [f"by{number} = Constant <value_int: int = @{multiplier}> ()", f"in{number} = Cast <to = 7> ({term.operand})"]
        lines += [f"term{number} = Mul (in{number}, by{number})"]
        if not number:
            lines.append("sum0 = Identity (term0)" if term.sign > 0 else "sum0 = Neg (term0)")
        else:
            lines.append(f"sum{number} = {'Add' if term.sign > 0 else 'Sub'} (sum{number - 1}, term{number})")
    return "\n".join(f"  {line}" for line in (*lines, f"total = Identity (sum{len(kind.terms) - 1})"))


def requantise(total: str, numerics: Numerics, leaky: bool, channels: bool, behind: int) -> str:
    """From an exact integer to a stored one: y = clip(round(activation(total * multiplier / 2**shift)), low, high).

    channels: a multiplier and a divisor for each row of the weights, with `behind` axes after it. All in float64, where every value before the
    rounding is exact: the quantiser proves that it has at most 53 bits.
    """
    scale = f"{_channel_scale(behind)}\n" if channels else f"{_power('shift', 'divisor', 11)}\n  scaled = Div (accumulator, divisor)\n"
    rounded = ROUND[numerics.rounding]
    if leaky and numerics.order == "shift_first":
        again = rounded.replace("exact", "sloped").replace("whole", "rounded")
        for name in ("half", "moved", "size1", "grown", "sign"):
            again = again.replace(f"{name} ", f"{name}2 ").replace(f"{name},", f"{name}2,").replace(f"{name})", f"{name}2)")
        steps = f"exact = Identity (scaled)\n  {rounded}\n  {_leak('whole')}\n  {again}"
        result = "rounded"
    else:
        steps = (f"{_leak('scaled')}\n  exact = Identity (sloped)" if leaky else "exact = Identity (scaled)") + f"\n  {rounded}"
        result = "whole"
    return f"  accumulator = Cast <to = 11> ({total})\n{scale}  {steps}\n{_clip(result)}"


def _clip(name: str) -> str:
    return f"""  lowint = Constant <value_int: int = @low> ()
  highint = Constant <value_int: int = @high> ()
  lowest = Cast <to = 11> (lowint)
  highest = Cast <to = 11> (highint)
  kept = Clip ({name}, lowest, highest)
  y = Cast <to = 3> (kept)"""


def _power(attribute: str, name: str, dtype: int) -> str:
    """2**attribute in an ONNX type, by an integer shift, which is exact everywhere."""
    return f"""  {name}count = Constant <value_int: int = @{attribute}> ()
  {name}unsigned = Cast <to = 13> ({name}count)
  {name}one = Constant <value = uint64 {{1}}> ()
  {name}power = BitShift <direction = "LEFT"> ({name}one, {name}unsigned)
  {name} = Cast <to = {dtype}> ({name}power)"""


def _channel_scale(behind: int) -> str:
    """multiplier, divisor: float64 [channels], whole numbers; divisor a power of two."""
    if behind:
        axes = f"  across = Constant <value = int64[{behind}] {{{', '.join(map(str, range(1, behind + 1)))}}}> ()"
        shaped = f"{axes}\n  factors = Unsqueeze (multiplier, across)\n  divisors = Unsqueeze (divisor, across)"
    else:
        shaped = "  factors = Identity (multiplier)\n  divisors = Identity (divisor)"
    return f"{shaped}\n  grownsum = Mul (accumulator, factors)\n  scaled = Div (grownsum, divisors)"


def _leak(name: str) -> str:
    """Below zero times slope / 2**slope_shift."""
    return f"""slopeint = Constant <value_int: int = @slope> ()
  slope = Cast <to = 11> (slopeint)
{_power("slope_shift", "slopedivisor", 11)}
  zero = Constant <value = double {{0.0}}> ()
  positive = Max ({name}, zero)
  negative = Min ({name}, zero)
  steep = Mul (negative, slope)
  leaked = Div (steep, slopedivisor)
  sloped = Add (positive, leaked)"""


def _function(domain: str, name: str, attributes: tuple[str, ...], operands: tuple[str, ...], body: str) -> ir.Function:
    declared = f" <{', '.join(attributes)}>" if attributes else ""
    text = f'<domain: "{domain}", opset_import: ["" : {OPSET}]>\n{name}{declared} ({", ".join(operands)}) => (y)\n{{\n  {body}\n}}'
    proto: onnx.FunctionProto = _PARSE.parse_function(text)
    return ir.from_proto(proto)


@cache
def boundary_function(name: str, numerics: Numerics) -> ir.Function:
    """`quantize` and `dequantize`: between the host's floats and stored integers; attribute scale is what one stored step is worth.

    quantize takes any floating type; dequantize gives float32, dequantize__TYPE another one by its number in ONNX.
    """
    scale = "s = Constant <value_float: float = @scale> ()"
    if name.startswith("dequantize"):
        other = name.partition("__")[2]
        result = f"wide = Mul (f, s)\n  y = Cast <to = {other}> (wide)" if other else "y = Mul (f, s)"
        return _function(INTEGER, name, ("scale",), ("x",), f"{scale}\n  f = Cast <to = 1> (x)\n  {result}")
    steps = f"{scale}\n  d = Cast <to = 11> (x)\n  sd = Cast <to = 11> (s)\n  exact = Div (d, sd)\n  {ROUND[numerics.rounding]}"
    return _function(INTEGER, name, ("scale", "low", "high"), ("x",), f"{steps}\n{_clip('whole')}")
