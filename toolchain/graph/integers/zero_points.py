"""Bodies of integer functions for tensors whose zero is a number of their own.

A body in standard operators knows of no zero points, and what it pads with is zero. So a body of ConvInteger or MatMulInteger, which is linear in
every operand, runs on the stored integers and once more on a tensor that is zero everywhere; their difference is the body of what the integers
stand for, around the edges too. Any other body gets the integers less their zero, int32.
"""

import re
from itertools import product

from toolchain.graph.integers.numerics import Numerics

MIDDLE = {"int8": 0, "uint8": 128}
"""Subtract this number from a stored integer to get an int8."""


def centred_text(body: str, data: tuple[str, ...], numerics: Numerics) -> str:
    """The body, from `products` of stored operands to `products` of those less their zeros."""
    if "ConvInteger" in body or "MatMulInteger" in body:
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
    """The body with names of its own; what stands in <> are attributes."""
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
