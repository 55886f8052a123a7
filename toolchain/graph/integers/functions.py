"""Operations as ONNX local functions: in floating point, and in a machine's integers spelled out in standard operators, whose products of stored
integers run in float32 where no order of adding up can round.

The name of a function is KIND__VARIANT: the variant is the activation, or the number of operands that stand for one.

ONNX Runtime's convolution of bytes takes three times as long as that of float32 on processors without instructions for byte products (measured on
ResNet-50: 0.67 and 0.23 s). A float32 holds every whole number up to 2**24, so sums are exact where the magnitudes of a row's products stay below.
"""

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import parser

from toolchain.graph.importing.versions import OPSET
from toolchain.graph.integers.endings import ROUND, STORED, centred_text, clip_text, ending_text, power_text, wide_text, with_operands
from toolchain.graph.integers.narrow import EXACT, is_exact, narrow, row_sums
from toolchain.graph.rewrite import add_constant, constant, drop_unused_constants, is_operator
from toolchain.operations.ending import by_channel, first_stored, scaling_attributes, scaling_operands, zero_names
from toolchain.operations.float_stages import GREATEST
from toolchain.operations.kind import UNIT, OperationKind
from toolchain.spec.arrays import Array
from toolchain.spec.model.quantisation import Format, Numerics

FUSED, INTEGER = "tilewright.fused", "tilewright.integer"
"""Domains. INTEGER is that of the first machine's arithmetic; a further machine of the same graph has one of its own below it."""
_PARSE: Any = parser
ACTIVATIONS = {"": "y = Identity (r)", "relu": "y = Relu (r)", "leaky": "y = LeakyRelu <alpha: float = @alpha> (r)"}
CLIP = """minimum32 = Constant <value_float: float = @minimum> ()
  maximum32 = Constant <value_float: float = @maximum> ()
  low = CastLike (minimum32, r)
  high = CastLike (maximum32, r)
  y = Clip (r, low, high)"""
CHANNELS = "__channels"
"""End of the name of a conversion with a factor for each channel, and of an operation that shifts each by an amount of its own."""
OF_ACTIVATION = {"leaky": ("alpha",), "clip": ("minimum", "maximum")}
"""Attributes that an activation adds to a float function."""
TABLE = """  place64 = Cast <to = 7> (x)
  first = Constant <value = int64 {FIRST}> ()
  place = Add (place64, first)
  y = Gather <axis = 0> (table, place)"""

FLOATING = {"ConvInteger": "Conv", "MatMulInteger": "MatMul"}
CALLED = "__float_products"
"""End of the name of such a function."""


def integer_domain(number: int, target: str) -> str:
    """The domain of a machine's integer functions. number: of the machine among those that share a graph. target: its name."""
    return f"{INTEGER}.{target}" if number else INTEGER


def is_integer(node: ir.Node | onnx.NodeProto) -> bool:
    """Whether a node computes in some machine's integers, conversions at a border included."""
    return node.domain == INTEGER or node.domain.startswith(f"{INTEGER}.")


def kind_of(node: ir.Node | onnx.NodeProto) -> str:
    """The name of a fused or integer call's operation; an empty string for other nodes."""
    return node.op_type.split("__")[0] if node.domain == FUSED or is_integer(node) else ""


def variant_of(node: ir.Node) -> str:
    return node.op_type.removesuffix(CHANNELS).partition("__")[2]


@cache
def fused_function(kind: OperationKind, variant: str) -> ir.Function:
    """The floating-point function."""
    attributes, activation = _activated(kind, variant)
    return _function(FUSED, _name(kind, variant), attributes, _operands(kind, variant), f"{_body(kind.floats, kind, variant)}\n  {activation}")


def _activated(kind: OperationKind, variant: str) -> tuple[tuple[str, ...], str]:
    """The attributes of a function in floating point, and the text of its activation, from `r` to `y`."""
    named, active = (each.name for each in kind.attributes), "" if kind.meaning.join else variant
    return (*named, *OF_ACTIVATION.get(active, ())), CLIP if active == "clip" else ACTIVATIONS[active]


@cache
def integer_function(kind: OperationKind, variant: str, numerics: Numerics, domain: str = INTEGER) -> ir.Function:
    """The function of the same name in a machine's arithmetic; see `endings` for its attributes. domain: the machine's, see
    `integer_domain`."""
    operands, named = _operands(kind, variant), tuple(each.name for each in kind.attributes)
    if numerics.floats is not None:
        return _half(kind, variant, domain, numerics.floats.format)
    if kind.copies:
        return _copies(kind, variant, numerics, domain)
    if kind.form == "table":
        return _function(domain, _name(kind, variant), (), (*operands, "table"), TABLE.replace("FIRST", str(-first_stored(numerics))))
    leaky, behind = variant == "leaky", _behind(kind) if kind.bias else 0
    zeros = zero_names(kind, numerics)
    own = (*(("bias_shift",) if kind.bias else ()), *((UNIT,) if kind.unit else ()), *kind.multipliers, *kind.constants, *zeros)
    ends = (*scaling_attributes(kind, numerics), *(("slope", "slope_shift") if leaky else ()), "low", "high")
    ending = _private(f"{_total(kind, numerics)}\n{ending_text(kind, numerics, leaky, behind)}")
    body = _body(kind.integers, kind, variant)
    if numerics.zero_points and kind.form != "aligned":
        body = centred_text(body, kind.data, numerics, linear=kind.form != "own")
    body = f"{body}\n{ending}"
    name = _name(kind, variant) + (CHANNELS if numerics.form == "power_of_two" and by_channel(kind, numerics) else "")
    return _function(domain, name, (*named, *own, *ends), (*operands, *scaling_operands(kind, numerics)), body)


NARROWED: Mapping[Format, str] = MappingProxyType(
    {"f16": f"y = Cast <to = {STORED['float16']}> (held)", "bf16": "brief = Cast <to = 16> (held)\n  y = Cast <to = 1> (brief)"}
)
"""By format, a result rounded to it, in what holds its numbers."""


def _half(kind: OperationKind, variant: str, domain: str, form: Format) -> ir.Function:
    """The operation in float32, its result rounded once to the format; ONNX Runtime adds up in an order of its own."""
    operands, (attributes, activation) = _operands(kind, variant), _activated(kind, variant)
    wide = "\n".join(f"  wide_{name} = Cast <to = 1> ({name})" for name in operands)
    body = with_operands(_body(kind.floats, kind, variant), {name: f"wide_{name}" for name in operands})
    ending = _private(f"  {activation.replace('y = ', 'held = ')}\n  {NARROWED[form]}")
    return _function(domain, _name(kind, variant), attributes, operands, f"{wide}\n{body}\n{ending}")


def _copies(kind: OperationKind, variant: str, numerics: Numerics, domain: str) -> ir.Function:
    """Elements stay as they are; where reads outside give zero, that is the operand's own."""
    operands, named, body = _operands(kind, variant), tuple(each.name for each in kind.attributes), _body(kind.floats, kind, variant)
    zeros = zero_names(kind, numerics)
    if not zeros:
        body = re.sub(r"(?m)^(\s*)r = ", r"\1y = ", body)
    else:
        body = with_operands(body, {name: f"{name}_centred" for name in kind.data})
        back = f"  moved = Add (r, {kind.data[0]}_middle)\n  y = Cast <to = {STORED[numerics.stored]}> (moved)"
        body = f"{''.join(wide_text(name, 6) for name in kind.data)}{body}\n{back}"
    return _function(domain, _name(kind, variant), (*named, *zeros), operands, body)


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


def _total(kind: OperationKind, numerics: Numerics) -> str:
    """From `products` to `total`: the bias, the multiplier of an average, or the summands by their multipliers."""
    if kind.form == "aligned":
        return _summands(kind, numerics)
    if kind.form == "average":
        return "  multiply = Constant <value_int: int = @multiply> ()\n  wide = Cast <to = 7> (products)\n  total = Mul (wide, multiply)"
    return _biased(_behind(kind), kind.bias) if kind.bias else "  total = Identity (products)"


def _biased(behind: int, operand: str) -> str:
    axes = ", ".join(map(str, range(1, behind + 1)))
    column = f"  axes = Constant <value = int64[{behind}] {{{axes}}}> ()\n  column = Unsqueeze (offset, axes)\n"
    return f"""  factorcount = Constant <value_int: int = @bias_shift> ()
{power_text("factorcount", "factor", 6)}
  offset = Mul ({operand}, factor)
{column if behind else ""}  total = Add (products, {"column" if behind else "offset"})"""


def _summands(kind: OperationKind, numerics: Numerics) -> str:
    lines: list[str] = []
    for number, (term, multiplier) in enumerate(zip(kind.terms, kind.multipliers, strict=True)):
        lines += [f"by{number} = Constant <value_int: int = @{multiplier}> ()", f"in{number} = Cast <to = 7> ({term.operand})"]
        if numerics.zero_points:
            lines += [f"zero{number} = Constant <value_int: int = @zero_{term.operand}> ()", f"less{number} = Sub (in{number}, zero{number})"]
        lines += [f"term{number} = Mul ({'less' if numerics.zero_points else 'in'}{number}, by{number})"]
        if not number:
            lines.append("sum0 = Identity (term0)" if term.sign > 0 else "sum0 = Neg (term0)")
        else:
            lines.append(f"sum{number} = {'Add' if term.sign > 0 else 'Sub'} (sum{number - 1}, term{number})")
    return "\n".join(f"  {line}" for line in (*lines, f"total = Identity (sum{len(kind.terms) - 1})"))


def _function(domain: str, name: str, attributes: tuple[str, ...], operands: tuple[str, ...], body: str) -> ir.Function:
    declared = f" <{', '.join(attributes)}>" if attributes else ""
    text = f'<domain: "{domain}", opset_import: ["" : {OPSET}]>\n{name}{declared} ({", ".join(operands)}) => (y)\n{{\n  {body}\n}}'
    proto: onnx.FunctionProto = _PARSE.parse_function(text)
    return ir.from_proto(proto)


NUMBER = "unknown = IsNaN (quotient)\n  nothing = Constant <value = double {0.0}> ()\n  exact = Where (unknown, nothing, quotient)"

HELD = """most = Constant <value = float {MOST}> ()
  high = CastLike (most, x)
  low = Neg (high)
  above = Greater (x, high)
  below = Less (x, low)
  upper = Where (above, high, x)
  held = Where (below, low, upper)
  """
"""Numbers of the host up to MOST, the greatest of a format; NaN stays."""


@cache
def boundary_function(name: str, numerics: Numerics, domain: str = INTEGER) -> ir.Function:
    """`quantize` and `dequantize`: between the host's floats and stored integers; attribute scale is the value of one stored step.

    quantize takes any floating type; quantize__channels also factors, which it multiplies the values by first. dequantize gives float32,
    dequantize__TYPE another one by its number in ONNX. With zero points, attribute zero_y or zero_x is the stored integer that stands for zero.
    In a floating format both only round, and have no attributes; numbers beyond the greatest one become that. NaN and infinities become integers by
    the table of `toolchain.operations.ending.quantize`.
    """
    if numerics.floats is not None:
        form, other = numerics.floats.format, name.partition("__")[2] or 1
        held = HELD.replace("MOST", f"{GREATEST[form]:.1f}")
        text = f"{held}{NARROWED[form]}" if name == "quantize" else f"y = Cast <to = {other}> (x)"
        return _function(domain, name, (), ("x",), text)
    scale = "s = Constant <value_float: float = @scale> ()"
    if name.startswith("dequantize"):
        other = name.partition("__")[2]
        result = f"wide = Mul (f, s)\n  y = Cast <to = {other}> (wide)" if other else "y = Mul (f, s)"
        if numerics.zero_points:
            return _function(domain, name, ("scale", "zero_x"), ("x",), f"{scale}\n{wide_text('x', 1)}  f = Identity (x_centred)\n  {result}")
        return _function(domain, name, ("scale",), ("x",), f"{scale}\n  f = Cast <to = 1> (x)\n  {result}")
    evened = name.endswith(CHANNELS)
    given = "dx = Cast <to = 11> (x)\n  df = Cast <to = 11> (factors)\n  d = Mul (dx, df)" if evened else "d = Cast <to = 11> (x)"
    steps = f"{scale}\n  {given}\n  sd = Cast <to = 11> (s)\n  quotient = Div (d, sd)\n  {NUMBER}\n  {ROUND[numerics.rounding]}"
    zero = ("zero_y",) if numerics.zero_points else ()
    return _function(
        domain, name, ("scale", *zero, "low", "high"), ("x", "factors") if evened else ("x",), f"{steps}\n{clip_text('whole', numerics)}"
    )


def use_float_products(model: ir.Model) -> ir.Model:
    """Changes the integer calls of a model in place, those with constant weights whose sums are exact and those that are exact to the end (see
    narrow), and answers with the model."""
    floating, narrow_ones = cache(_floating), cache(narrow)  # calls share functions
    for node in model.graph:
        function = model.functions.get(node.op_identifier()) if is_integer(node) else None
        if function is None:
            continue
        if len(node.inputs) > 1 and (weights := constant(node.inputs[1])) is not None and _fits(function, weights):
            function = floating(function)
            node.replace_input_with(1, add_constant(model.graph, f"{node.name}.weights", weights.astype(np.float32)))
        made = narrow_ones(function) if is_exact(function, node) else function
        model.functions.setdefault(made.identifier(), made)
        node.op_type = made.name
    drop_unused_constants(model.graph)
    return model


def _fits(function: ir.Function, weights: Array) -> bool:
    """weights: a row for each channel of the result."""
    has_products = any(is_operator(node, *FLOATING) and len(node.inputs) == 2 for node in function)
    return has_products and weights.dtype == np.int8 and weights.ndim > 1 and row_sums(weights) <= EXACT


def _floating(function: ir.Function) -> ir.Function:
    """A copy whose products read their second operand in float32."""
    made = function.clone()
    made.name = f"{function.name}{CALLED}"
    for node in [node for node in made if is_operator(node, *FLOATING) and len(node.inputs) == 2]:
        wide = ir.node("Cast", node.inputs[:1], {"to": ir.DataType.FLOAT.value}, num_outputs=1)
        product = ir.Node("", FLOATING[node.op_type], [wide.outputs[0], node.inputs[1]], node.attributes.values(), num_outputs=1)
        whole = ir.node("Cast", product.outputs, {"to": ir.DataType.INT32.value}, num_outputs=1)
        made.insert_after(node, [wide, product, whole])
        node.outputs[0].replace_all_uses_with(whole.outputs[0], replace_graph_outputs=True)
        made.remove(node, safe=True)
    return made
