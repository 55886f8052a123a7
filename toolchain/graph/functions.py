"""The fused operations as ONNX local functions: in floating point, and in a machine's integers spelled out in standard operators.

The name of a function is KIND__VARIANT: the variant is the activation, or the number of operands of a concat.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import onnx
import onnx_ir as ir
from onnx import parser

from toolchain.graph.numerics import Numerics
from toolchain.graph.versions import OPSET
from toolchain.spec.model.quantisation import COPIES

FUSED, INTEGER = "tilewright.fused", "tilewright.integer"
WINDOW = ("kernel_shape", "strides", "pads")
CONVOLUTION = ("strides", "pads", "dilations", "group")
_PARSE: Any = parser


@dataclass(frozen=True)
class Kind:
    """operands: names of inputs. attributes: of both forms. core: the float result `r`. sums: integer text that makes `total`, or copies to `y`.

    scaled: the integer form rounds, so it has requantisation attributes. activates: it may end in an activation.
    """

    operands: tuple[str, ...]
    attributes: tuple[str, ...]
    core: str
    sums: str
    own: tuple[str, ...] = ()
    scaled: bool = False
    activates: bool = False


def _refs(*names: str) -> str:
    return ", ".join(f"{name}: {'int' if name in ('group', 'axis') else 'ints'} = @{name}" for name in names)


BIAS = """
  biasshift = Constant <value_int: int = @bias_shift> ()
  unsigned = Cast <to = 13> (biasshift)
  one = Constant <value = uint64 {1}> ()
  power = BitShift <direction = "LEFT"> (one, unsigned)
  factor = Cast <to = 6> (power)
  bias = Mul (b, factor)
"""
WINDOW_SUM = f"""
  kernel = Constant <value_ints: ints = @kernel_shape> ()
  planes = Constant <value = int64[2] {{-1, 1}}> ()
  ones2 = Constant <value = int64[2] {{1, 1}}> ()
  kshape = Concat <axis = 0> (ones2, kernel)
  kernelones = ConstantOfShape <value = int8[1] {{1}}> (kshape)
  size = Shape <start = 2> (x)
  flat = Concat <axis = 0> (planes, size)
  single = Reshape (x, flat)
  sum1 = ConvInteger <{_refs("strides", "pads")}> (single, kernelones)
  outsize = Shape <start = 2> (sum1)
  front = Shape <start = 0, end = 2> (x)
  back = Concat <axis = 0> (front, outsize)
  total = Reshape (sum1, back)
"""
SUM = """
  mx = Constant <value_int: int = @multiply_x> ()
  my = Constant <value_int: int = @multiply_y> ()
  xi = Cast <to = 7> (x)
  yi = Cast <to = 7> (z)
  xm = Mul (xi, mx)
  ym = Mul (yi, my)
  total = Add (xm, ym)
"""
SHUFFLE = """
  groups = Constant <value_int: int = @group> ()
  axis0 = Constant <value = int64[1] {0}> ()
  grouped = Unsqueeze (groups, axis0)
  rest = Constant <value = int64[1] {-1}> ()
  images = Shape <start = 0, end = 1> (x)
  picture = Shape <start = 2> (x)
  whole = Shape (x)
  split = Concat <axis = 0> (images, grouped, rest, picture)
  apart = Reshape (x, split)
  swapped = Transpose <perm = [0, 2, 1, 3, 4]> (apart)
"""
KINDS: dict[str, Kind] = {
    "conv2d": Kind(
        ("x", "w", "b"),
        CONVOLUTION,
        f"r = Conv <{_refs(*CONVOLUTION)}> (x, w, b)",
        f"products = ConvInteger <{_refs(*CONVOLUTION)}> (x, w)\n{BIAS}\n  axes = Constant <value = int64[2] {{1, 2}}> ()\n"
        "  column = Unsqueeze (bias, axes)\n  total = Add (products, column)",
        own=("bias_shift",),
        scaled=True,
        activates=True,
    ),
    "dense": Kind(
        ("x", "w", "b"),
        (),
        "r = Gemm <transB = 1> (x, w, b)",
        f"wt = Transpose <perm = [1, 0]> (w)\n  products = MatMulInteger (x, wt)\n{BIAS}\n  total = Add (products, bias)",
        own=("bias_shift",),
        scaled=True,
        activates=True,
    ),
    "add": Kind(("x", "z"), (), "r = Add (x, z)", SUM, own=("multiply_x", "multiply_y"), scaled=True, activates=True),
    "average_pool": Kind(
        ("x",),
        WINDOW,
        f"r = AveragePool <{_refs(*WINDOW)}, count_include_pad = 1> (x)",
        WINDOW_SUM + "\n  avg = Constant <value_int: int = @multiply> ()\n  wide = Cast <to = 7> (total)\n  scaledsum = Mul (wide, avg)",
        own=("multiply",),
        scaled=True,
        activates=True,
    ),
    "max_pool": Kind(("x",), WINDOW, f"r = MaxPool <{_refs(*WINDOW)}> (x)", f"y = MaxPool <{_refs(*WINDOW)}> (x)"),
    "upsample": Kind(("x",), ("factors",), "", ""),
    "shuffle": Kind(("x",), ("group",), "", ""),
    "pad": Kind(
        ("x",),
        ("pads",),
        "p = Constant <value_ints: ints = @pads> ()\n  r = Pad (x, p)",
        "p = Constant <value_ints: ints = @pads> ()\n  y = Pad (x, p)",
    ),
    "flatten": Kind(("x",), (), "r = Flatten <axis = 1> (x)", "y = Flatten <axis = 1> (x)"),
    "concat": Kind((), ("axis",), "", ""),
}
"""Everything that can be fused and offloaded; operators outside stay as they are, on the host."""
SPELLED = ("concat", "upsample", "shuffle")
"""Kinds whose text is the same in both forms; see _copy."""
ACTIVATIONS = {"": "y = Identity (r)", "relu": "y = Relu (r)", "leaky": "y = LeakyRelu <alpha: float = @alpha> (r)"}
CLIP = """minimum32 = Constant <value_float: float = @minimum> ()
  maximum32 = Constant <value_float: float = @maximum> ()
  low = CastLike (minimum32, r)
  high = CastLike (maximum32, r)
  y = Clip (r, low, high)"""
ROUND = {
    "half_up": "half = Constant <value = double {0.5}> ()\n  moved = Add (exact, half)\n  whole = Floor (moved)",
    "half_even": "whole = Round (exact)",
    "half_away": "half = Constant <value = double {0.5}> ()\n  size1 = Abs (exact)\n  moved = Add (size1, half)\n  grown = Floor (moved)\n"
    "  sign = Sign (exact)\n  whole = Mul (grown, sign)",
    "floor": "whole = Floor (exact)",
}


def kind_of(node: ir.Node) -> str:
    """The kind of a fused or integer call; an empty string for other nodes."""
    return node.op_type.split("__")[0] if node.domain in (FUSED, INTEGER) else ""


def variant_of(node: ir.Node) -> str:
    return node.op_type.partition("__")[2]


@cache
def fused_function(name: str) -> ir.Function:
    """The floating-point function KIND__VARIANT."""
    kind, _, variant = name.partition("__")
    declared = KINDS[kind]
    extra = {"leaky": ("alpha",), "clip": ("minimum", "maximum")}.get(variant, ())
    body = _copy(kind, variant, "r") if kind in SPELLED else declared.core
    activation = ACTIVATIONS["" if kind in COPIES else variant] if variant != "clip" else CLIP
    return _function(FUSED, name, (*declared.attributes, *extra), _operands(kind, variant), f"{body}\n  {activation}")


@cache
def integer_function(name: str, numerics: Numerics) -> ir.Function:
    """The function of the same name in a machine's arithmetic; see `requantise` for what its attributes mean."""
    kind, _, variant = name.partition("__")
    declared = KINDS[kind]
    if not declared.scaled:
        body = _copy(kind, variant, "y") if kind in SPELLED else declared.sums
        return _function(INTEGER, name, declared.attributes, _operands(kind, variant), body)
    total = "scaledsum" if kind == "average_pool" else "total"
    channels = kind in ("conv2d", "dense") and numerics.form == "multiplier"
    leaky = variant == "leaky"
    attributes = (*declared.attributes, *declared.own, *(() if channels else ("shift",)), *(("slope", "slope_shift") if leaky else ()), "low", "high")
    operands = (*declared.operands, "multiplier", "divisor") if channels else declared.operands
    body = f"{declared.sums}\n{requantise(total, numerics, leaky, channels, kind == 'conv2d')}"
    return _function(INTEGER, name, attributes, operands, body)


def requantise(total: str, numerics: Numerics, leaky: bool, channels: bool, column: bool) -> str:
    """From an exact integer to a stored one: y = clip(round(activation(total * multiplier / 2**shift)), low, high).

    All in float64, where every value before the rounding is exact: bounds.py proves that it has at most 53 bits.
    """
    scale = f"{_channel_scale(column)}\n" if channels else f"{_power('shift', 'divisor')}\n  scaled = Div (accumulator, divisor)\n"
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


def _power(attribute: str, name: str) -> str:
    """2**attribute as float64, by an integer shift, which is exact everywhere."""
    return f"""  {name}count = Constant <value_int: int = @{attribute}> ()
  {name}unsigned = Cast <to = 13> ({name}count)
  {name}one = Constant <value = uint64 {{1}}> ()
  {name}power = BitShift <direction = "LEFT"> ({name}one, {name}unsigned)
  {name} = Cast <to = 11> ({name}power)"""


def _channel_scale(column: bool) -> str:
    """multiplier, divisor: float64 [channels], whole numbers; divisor a power of two."""
    if column:
        shaped = (
            "  across = Constant <value = int64[2] {1, 2}> ()\n  factors = Unsqueeze (multiplier, across)\n  divisors = Unsqueeze (divisor, across)"
        )
    else:
        shaped = "  factors = Identity (multiplier)\n  divisors = Identity (divisor)"
    return f"{shaped}\n  grownsum = Mul (accumulator, factors)\n  scaled = Div (grownsum, divisors)"


def _leak(name: str) -> str:
    """Below zero times slope / 2**slope_shift."""
    return f"""slopeint = Constant <value_int: int = @slope> ()
  slope = Cast <to = 11> (slopeint)
{_power("slope_shift", "slopedivisor")}
  zero = Constant <value = double {{0.0}}> ()
  positive = Max ({name}, zero)
  negative = Min ({name}, zero)
  steep = Mul (negative, slope)
  leaked = Div (steep, slopedivisor)
  sloped = Add (positive, leaked)"""


def _copy(kind: str, variant: str, result: str) -> str:
    if kind == "concat":
        return f"{result} = Concat <axis: int = @axis> ({', '.join(_operands(kind, variant))})"
    if kind == "shuffle":
        return f"{SHUFFLE}\n  {result} = Reshape (swapped, whole)"
    return f"""factors = Constant <value_ints: ints = @factors> ()
  zero1 = Constant <value = int64[1] {{0}}> ()
  one1 = Constant <value = int64[1] {{1}}> ()
  two1 = Constant <value = int64[1] {{2}}> ()
  nc = Shape <start = 0, end = 2> (x)
  h = Shape <start = 2, end = 3> (x)
  wd = Shape <start = 3, end = 4> (x)
  nch = Concat <axis = 0> (nc, h)
  apartshape = Concat <axis = 0> (nch, one1, wd, one1)
  apart = Reshape (x, apartshape)
  fh = Slice (factors, zero1, one1)
  fw = Slice (factors, one1, two1)
  spreadshape = Concat <axis = 0> (nch, fh, wd, fw)
  spread = Expand (apart, spreadshape)
  spatial = Shape <start = 2> (x)
  grownspatial = Mul (spatial, factors)
  outshape = Concat <axis = 0> (nc, grownspatial)
  {result} = Reshape (spread, outshape)"""


def _operands(kind: str, variant: str) -> tuple[str, ...]:
    return tuple(f"x{number}" for number in range(int(variant))) if kind == "concat" else KINDS[kind].operands


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
