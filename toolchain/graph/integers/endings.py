"""The ending of an integer function in standard operators: from `total`, an exact whole number, to `y`, the stored one.

Shifts alone are computed in float64, where every value before the rounding is exact: the quantiser proves that it has at most 53 bits. Products with
multipliers are computed in int64, with a modulus that has the divisor's sign; ONNX Runtime's Min, Max and Clip of int64 compare 32 bits on some
processors (version 1.31), so limits are taken in float64. A factor in float32 is one product in float32.
"""

import re
from itertools import product

from toolchain.operations.ending import by_channel, scaling_attributes, scaling_operands
from toolchain.operations.kind import OperationKind
from toolchain.spec.model.quantisation import AverageRule, Fraction, Numerics, Rounding

ROUNDINGS: tuple[Rounding, ...] = ("half_up", "half_even", "half_away", "floor")


def average_fraction(rule: AverageRule, height: int, width: int) -> Fraction:
    """The fraction that stands for 1 / (height * width): the table's, or the least error, the smallest shift of several."""
    for kh, kw, fraction in rule.table:
        if (kh, kw) == (height, width):
            return fraction
    count = height * width
    limit = 2 ** (rule.bits - 1)
    choices = [Fraction((2 ** (s + 1) + count) // (2 * count), s) for s in range(max(1, (limit * count - 1).bit_length()))]
    legal = [choice for choice in choices if 0 < choice.numerator < limit]
    return min(legal, key=lambda choice: (_error(choice, count), choice.shift))


def _error(fraction: Fraction, count: int) -> float:
    return abs(fraction.numerator * count - 2**fraction.shift) / 2**fraction.shift


# A body in standard operators knows of no zero points, and what it pads with is zero. So a body of ConvInteger or MatMulInteger, which is linear in
# every operand, runs on the stored integers and once more on a tensor that is zero everywhere; their difference is the body of what the integers
# stand for, around the edges too. Any other body gets the integers less their zero, int32.

MIDDLE = {"int8": 0, "uint8": 128}
"""Subtract this number from a stored integer to get an int8."""


def centred_text(body: str, data: tuple[str, ...], numerics: Numerics, linear: bool = True) -> str:
    """The body, from `products` of stored operands to `products` of those less their zeros. linear: whether a body of integer products is so."""
    if linear and ("ConvInteger" in body or "MatMulInteger" in body):
        return _differences(body, data, numerics)
    return f"{''.join(wide_text(name, 6) for name in data)}{with_operands(body, {name: f'{name}_centred' for name in data})}"


def wide_text(name: str, dtype: int) -> str:
    """NAME_centred: an operand less its zero, in an ONNX type."""
    return f"""  {name}_zero = Constant <value_int: int = @zero_{name}> ()
  {name}_middle = Cast <to = {dtype}> ({name}_zero)
  {name}_wide = Cast <to = {dtype}> ({name})
  {name}_centred = Sub ({name}_wide, {name}_middle)
"""


def with_operands(body: str, names: dict[str, str]) -> str:
    """The body with other tensors as its operands: whole names in the brackets that end a line."""
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, names))})\b") if names else None

    def change(found: re.Match[str]) -> str:
        return found[0] if pattern is None else pattern.sub(lambda name: names[name[0]], found[0])

    return re.sub(r"(?m)\([^()]*\)[ \t]*$", change, body)


def _differences(body: str, data: tuple[str, ...], numerics: Numerics) -> str:
    """The sum over all choices of integers or zeros for each operand, negative for an odd number of zeros."""
    text, total = "".join(_small(name, MIDDLE[numerics.stored]) for name in data), ""
    for number, choice in enumerate(product((False, True), repeat=len(data))):
        names = {name: f"{name}_{'empty' if zero else 'small'}" for name, zero in zip(data, choice, strict=True)}
        text += f"{_apart(with_operands(body, names), f'part{number}_')}\n"
        if not number:
            total = "part0_products"
        else:
            text += f"  sum{number} = {'Sub' if sum(choice) % 2 else 'Add'} ({total}, part{number}_products)\n"
            total = f"sum{number}"
    return f"{text}  products = Identity ({total})"


def _apart(body: str, before: str) -> str:
    """The body with names of its own; attributes stand in <>."""
    names = sorted(set(re.findall(r"(?m)^\s*(\w+) =", body)))
    pattern = re.compile(rf"\b({'|'.join(names)})\b")
    parts = re.split(r"(<[^<>]*>)", body)
    return "".join(part if part.startswith("<") else pattern.sub(rf"{before}\1", part) for part in parts)


def _small(name: str, middle: int) -> str:
    """NAME_small: the operand as int8. NAME_empty: its zero everywhere."""
    return f"""  {name}_wide = Cast <to = 6> ({name})
  {name}_middle = Constant <value = int32 {{{middle}}}> ()
  {name}_less = Sub ({name}_wide, {name}_middle)
  {name}_small = Cast <to = 3> ({name}_less)
  {name}_zero = Constant <value_int: int = @zero_{name}> ()
  {name}_zerowide = Cast <to = 6> ({name}_zero)
  {name}_zeroless = Sub ({name}_zerowide, {name}_middle)
  {name}_zerosmall = Cast <to = 3> ({name}_zeroless)
  {name}_shape = Shape ({name})
  {name}_empty = Expand ({name}_zerosmall, {name}_shape)
"""


ROUND = {
    "half_up": "half = Constant <value = double {0.5}> ()\n  moved = Add (exact, half)\n  whole = Floor (moved)",
    "half_even": "whole = Round (exact)",
    "half_away": "half = Constant <value = double {0.5}> ()\n  size1 = Abs (exact)\n  moved = Add (size1, half)\n  grown = Floor (moved)\n"
    "  sign = Sign (exact)\n  whole = Mul (grown, sign)",
    "floor": "whole = Floor (exact)",
}
STORED = {"int8": 3, "uint8": 2, "float16": 10}
"""Numbers of ONNX's types."""


def ending_text(kind: OperationKind, numerics: Numerics, leaky: bool, behind: int) -> str:
    """y = clip(zero + round(activation(total * scale)), low, high).

    behind: axes of the result after the one along which a scale for each channel stands.
    """
    match numerics.form:
        case "power_of_two":
            divisor = _divisors(kind, numerics, behind) if by_channel(kind, numerics) else _power("shift", "divisor", 11)
            return f"  accumulator = Cast <to = 11> (total)\n{divisor}\n  scaled = Div (accumulator, divisor)\n" + _floating(numerics, leaky)
        case "float32":
            return _single(kind, numerics, behind) + _floating(numerics, leaky)
        case "multiplier":
            return _multiplied(kind, numerics, leaky, behind)
        case "none":
            raise ValueError("a floating format has no scales")


def _floating(numerics: Numerics, leaky: bool) -> str:
    """From `scaled`, float64, on."""
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
    return f"  {steps}\n{clip_text(result, numerics)}"


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


def clip_text(name: str, numerics: Numerics) -> str:
    """name: float64, whole."""
    zero = "  zeroint = Constant <value_int: int = @zero_y> ()\n  zerowide = Cast <to = 11> (zeroint)\n  placed = Add ({name}, zerowide)\n"
    return f"""{zero.format(name=name) if numerics.zero_points else ""}  lowint = Constant <value_int: int = @low> ()
  highint = Constant <value_int: int = @high> ()
  lowest = Cast <to = 11> (lowint)
  highest = Cast <to = 11> (highint)
  kept = Clip ({"placed" if numerics.zero_points else name}, lowest, highest)
  y = Cast <to = {STORED[numerics.stored]}> (kept)"""


def _power(attribute: str, name: str, dtype: int) -> str:
    """2**attribute in an ONNX type, by an integer shift, which is exact everywhere."""
    return f"  {name}count = Constant <value_int: int = @{attribute}> ()\n{power_text(f'{name}count', name, dtype)}"


def _divisors(kind: OperationKind, numerics: Numerics, behind: int) -> str:
    """2**shift of each channel."""
    return f"{_given(kind, numerics, 'shift', behind, 7)}{power_text('shift_each', 'divisor', 11)}"


def power_text(count: str, name: str, dtype: int) -> str:
    """name = 2**count, of any shape."""
    return f"""  {name}unsigned = Cast <to = 13> ({count})
  {name}one = Constant <value = uint64 {{1}}> ()
  {name}power = BitShift <direction = "LEFT"> ({name}one, {name}unsigned)
  {name} = Cast <to = {dtype}> ({name}power)"""


def _given(kind: OperationKind, numerics: Numerics, name: str, behind: int, dtype: int) -> str:
    """A part of the scale as NAME_each, from an attribute or from an operand with a number for each channel."""
    if name in scaling_attributes(kind, numerics):
        attribute = "value_float: float" if name == "scale" else "value_int: int"
        return f"  {name}_one = Constant <{attribute} = @{name}> ()\n  {name}_each = Cast <to = {dtype}> ({name}_one)\n"
    wide = f"  {name}_wide = Cast <to = {dtype}> ({name})\n"
    if not behind:
        return f"{wide}  {name}_each = Identity ({name}_wide)\n"
    axes = f"  {name}_axes = Constant <value = int64[{behind}] {{{', '.join(map(str, range(1, behind + 1)))}}}> ()\n"
    return f"{wide}{axes}  {name}_each = Unsqueeze ({name}_wide, {name}_axes)\n"


def _single(kind: OperationKind, numerics: Numerics, behind: int) -> str:
    """The sum, rounded to float32, times a float32, rounded to float32."""
    given = _given(kind, numerics, "scale", behind, 1)
    return f"{given}  narrow = Cast <to = 1> (total)\n  single = Mul (narrow, scale_each)\n  scaled = Cast <to = 11> (single)\n"


def _multiplied(kind: OperationKind, numerics: Numerics, leaky: bool, behind: int) -> str:
    given = "".join(_given(kind, numerics, name, behind, 7) for name in (*scaling_attributes(kind, numerics), *scaling_operands(kind, numerics)))
    text = f"{given}  accumulator = Cast <to = 7> (total)\n  product = Mul (accumulator, multiplier_each)\n"
    if not leaky:
        return f"{text}{_shifted('product', 'shift_each', numerics, 'whole')}{_clipped('whole', numerics)}"
    slope = "  slope = Constant <value_int: int = @slope> ()\n  more = Constant <value_int: int = @slope_shift> ()\n"
    slope += "  nothing = Constant <value = int64 {0}> ()\n"
    if numerics.order == "activation_first":
        chosen = "  below = Less (product, nothing)\n  steep = Mul (product, slope)\n  sloped = Where (below, steep, product)\n"
        chosen += "  further = Add (shift_each, more)\n  count = Where (below, further, shift_each)\n"
        return f"{text}{slope}{chosen}{_shifted('sloped', 'count', numerics, 'whole')}{_clipped('whole', numerics)}"
    first = _shifted("product", "shift_each", numerics, "flat")
    again = f"  steep = Mul (flat, slope)\n{_rounded('steep', 'more', numerics.rounding, 'leaked')}"
    chosen = "  below = Less (flat, nothing)\n  whole = Where (below, leaked, flat)\n"
    return f"{text}{slope}{first}{again}{chosen}{_clipped('whole', numerics)}"


def _clipped(name: str, numerics: Numerics) -> str:
    """An int64 constant of one element."""
    return f"  real = Cast <to = 11> ({name})\n{clip_text('real', numerics)}"


def _shifted(value: str, count: str, numerics: Numerics, result: str) -> str:
    """result = value / 2**count, int64, rounded once or twice."""
    first = numerics.first_rounding
    if first is None:
        return _rounded(value, count, numerics.rounding, result)
    cut = f"  {result}_most = Constant <value = int64 {{{first.shift}}}> ()\n  {result}_short = Less ({count}, {result}_most)\n"
    cut += f"  {result}_first = Where ({result}_short, {count}, {result}_most)\n"
    rest = f"  {result}_rest = Sub ({count}, {result}_first)\n"
    high = _rounded(value, f"{result}_first", first.rounding, f"{result}_high")
    return f"{cut}{rest}{high}{_rounded(f'{result}_high', f'{result}_rest', numerics.rounding, result)}"


def _rounded(value: str, count: str, rounding: Rounding, result: str) -> str:
    """result = value / 2**count, from quotient and remainder."""
    n = result
    text = f"{power_text(count, f'{n}_power', 7)}\n  {n}_left = Mod ({value}, {n}_power)\n  {n}_even = Sub ({value}, {n}_left)\n"
    text += f"  {n}_floor = Div ({n}_even, {n}_power)\n"
    if rounding == "floor":
        return f"{text}  {result} = Identity ({n}_floor)\n"
    text += f"  {n}_twice = Add ({n}_left, {n}_left)\n"
    match rounding:
        case "half_up":
            text += f"  {n}_up = GreaterOrEqual ({n}_twice, {n}_power)\n"
        case "half_even":
            text += f"  {n}_two = Constant <value = int64 {{2}}> ()\n  {n}_odd = Mod ({n}_floor, {n}_two)\n  {n}_ties = Cast <to = 9> ({n}_odd)\n"
        case "half_away":
            text += f"  {n}_zero = Constant <value = int64 {{0}}> ()\n  {n}_ties = GreaterOrEqual ({value}, {n}_zero)\n"
    if rounding != "half_up":
        text += f"  {n}_more = Greater ({n}_twice, {n}_power)\n  {n}_equal = Equal ({n}_twice, {n}_power)\n"
        text += f"  {n}_tied = And ({n}_equal, {n}_ties)\n  {n}_up = Or ({n}_more, {n}_tied)\n"
    return f"{text}  {n}_one = Cast <to = 7> ({n}_up)\n  {result} = Add ({n}_floor, {n}_one)\n"
