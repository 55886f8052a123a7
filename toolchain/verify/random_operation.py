"""Random operations of one kind, with numbers and known tensors that a machine's arithmetic allows, and random halves."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from toolchain.graph.quantisation.requantisation import LONGEST
from toolchain.operations.ending import by_channel, of_call, zero_names
from toolchain.operations.float_stages import DTYPES, rounded
from toolchain.operations.floating import Bounds, computable
from toolchain.operations.kind import UNIT, OperationKind
from toolchain.operations.numbers import complete, followed_numbers, macs_of, stated_numbers
from toolchain.operations.operation import Operation, make_operation, picture_of
from toolchain.operations.whole import constants_of, most_factor, step_of, unmet
from toolchain.schedule.kernel_selection import images_per_run
from toolchain.spec.arrays import Array
from toolchain.spec.errors import UserError
from toolchain.spec.model import Machine
from toolchain.spec.model.quantisation import Format, Fraction, Numerics

Drawn = TypeVar("Drawn")

SIZES = (1, 2, 3, 5, 7, 9, 16, 17, 33)
"""Extents that are drawn: corners of blocks, and sizes that divide into none."""
CHANNELS = (*SIZES, 33)
"""The same where they are not those of a picture: of channels that stand together in blocks of 32, two blocks of inputs and of outputs are wanted."""
LARGE = (2053, 4099, 8209)
"""Extents beyond the fields of many instructions, the first where every second element is kept."""
LITTLE = 12
"""The most that a limit or a bias is away from zero where sums are small."""
SIX = 5
"""Scales in which 6 is drawn, and stays below 128 in all but one."""
LEAKY, SLOPE_SHIFT = 6, 8
"""One operation of so many has a leaky activation, where its kind has activations; the most bits of its slope behind the point."""
DRAWN = 100
"""Random scales that are drawn at most until a machine's own arithmetic can compute with them."""
MOST_MACS = 1 << 24
MOST_ELEMENTS = 1 << 20
"""The most elements of an operand: two extents beyond fields would be one beyond memories."""
CORNERS = np.array([0.0, -0.0, 2.0**-24, -(2.0**-24), 2.0**-14, -(2.0**-14), 1.0, -1.0, 1 + 2.0**-10, 2048.0, 65504.0, -65504.0], np.float32)
"""Zeros, the least subnormal and normal numbers, one and its neighbour, the first whole number without a successor, the greatest ones."""
INFINITE = 64
"""One drawn tensor of so many has an infinity."""


def draw_operation(
    machine: Machine,
    kind: OperationKind,
    rng: np.random.Generator,
    fixed: Mapping[str, int] | None = None,
    large: bool = False,
    most_macs: int = MOST_MACS,
    own_shifts: bool | None = None,
    corner: bool = False,
) -> Operation | None:
    """A random operation of a kind; None for numbers that do not fit each other. fixed: numbers that are not drawn. large: one extent, with all that
    are equal to it, is beyond the fields of many instructions, the others are small. own_shifts: whether channels have different shifts, where the
    machine has that; None: drawn. corner: weights, biases and shifts are small and factors powers of two, so that small inputs give results between
    the limits, many of them ties that rounding settles; limits are anywhere near zero."""
    drawn = _drawn_numbers(kind, rng, large)
    drawn["batch"] = images_per_run(machine) * int(rng.integers(1, 3 if images_per_run(machine) == 1 else 2))
    drawn |= {name: value for name, value in stated_numbers(kind).items() if name in drawn} | dict(fixed or {})
    drawn |= followed_numbers(kind, drawn)
    numerics, apart = machine.quantisation or Numerics(), rng.spawn(1)[0]
    if numerics.floats is not None and not computable(kind):
        return None
    plain = of_call(numerics, False)  # shifts of channels come from a generator of their own, so that all else is drawn as without them
    own = numerics if (apart.integers(2) if own_shifts is None else own_shifts) else plain
    try:
        numbers = complete(kind, {**drawn, **{e: 1 for e in drawn if e in kind.fixed}})
        if macs_of(kind, numbers) > most_macs or max(math.prod(numbers[e] for e in each.extents) for each in kind.operands) > MOST_ELEMENTS:
            return None
        ends = _ends(kind, plain, rng, corner) if numerics.floats is None else random_bounds(rng).numbers if kind.scaled else {}
        numbers |= {**ends, **(fixed or {})}
        if kind.arithmetic:
            own_numbers = drawn_constants(kind, numbers, apart)
            if own_numbers is None:
                return None
            numbers |= own_numbers[0] | ({} if by_channel(kind, plain) else _own_scale(plain, own_numbers[1]))
        arrays = {name: _array(kind, name, numbers, numerics, rng, corner) for name in kind.known}
        arrays |= _channels(kind, own, numbers, rng if own is plain else apart, corner)
        if kind.form == "table":
            arrays["table"] = rng.integers(-128, 128, 256).astype(numerics.stored)
        pictures = {name: picture_of([numbers[extent] for extent in kind.operand[name].extents]) for name in kind.data}
        operation = make_operation(kind, "checked", pictures, arrays, numbers)
    except UserError:
        return None
    return operation if numerics.floats is not None or operation.reach(numerics.reach) < 1 << (numerics.accumulator_bits - 1) else None


def _drawn_numbers(kind: OperationKind, rng: np.random.Generator, large: bool) -> dict[str, int]:
    """Extents and attributes, whether they fit each other or not; of windows, one in eight is the whole picture, and five have room in it."""
    picture = {extent for each in kind.operands if len(each.extents) > 3 for extent in each.extents[2:]}
    drawn = {
        extent: one_of(rng, SIZES[:3] if large else SIZES if extent in picture else CHANNELS) for each in kind.operands for extent in each.extents
    }
    for number in (number for each in kind.attributes for number in each.numbers):
        drawn[number] = kind.defaults.get(number, 1) if rng.integers(2) else drawn_attribute(kind, number, rng)
    way = int(rng.integers(8))  # windows of the whole picture are a corner of their own; of others drawn without it, few fit
    for window, own in windows_of(kind) if way < 6 else ():
        drawn[window] = drawn[own] if way == 0 else one_of(rng, [size for size in SIZES if size <= drawn[own]])
    if large:
        extents = sorted({extent for each in kind.operands for extent in each.extents})
        size = drawn[one_of(rng, extents)]
        drawn |= dict.fromkeys((name for name in extents if drawn[name] == size), one_of(rng, LARGE))
    return drawn


def windows_of(kind: OperationKind) -> Iterator[tuple[str, str]]:
    """Extents of windows, and those of the picture that they move over."""
    return zip([*kind.meaning.over.values()][::-1], kind.operands[0].extents[::-1], strict=False)


def drawn_attribute(kind: OperationKind, number: str, rng: np.random.Generator) -> int:
    """A small number, 0 where that is the default."""
    return int(rng.integers(0 if kind.defaults.get(number) == 0 else 1, 4))


def one_of(rng: np.random.Generator, values: Sequence[Drawn]) -> Drawn:
    """The value that `rng.choice` draws, in a fifth of its time."""
    return values[int(rng.integers(len(values)))]


def _ends(kind: OperationKind, numerics: Numerics, rng: np.random.Generator, corner: bool) -> dict[str, int]:
    """Requantisation: factors around the size of sums, limits of no activation and of ReLU, and others; stored integers that stand for zero."""
    held = numerics.activation
    zeros = {name: one_of(rng, [held.low, held.high, int(rng.integers(held.low, held.high + 1))]) for name in zero_names(kind, numerics)}
    if not kind.scaled:
        return zeros
    multipliers = {name: 1 << int(rng.integers(0, 4)) for name in kind.multipliers}
    unit = {UNIT: 1 << int(rng.integers(0, 8))} if kind.unit else {}
    low = one_of(rng, [held.low, 0]) if not numerics.zero_points else one_of(rng, [held.low, zeros["zero_y"]])
    ends = {"low": low, "high": held.high if numerics.zero_points else 127, **zeros, **multipliers, **unit}
    if corner:
        ends |= _near_limits(numerics, zeros.get("zero_y", 0), rng)
    if kind.activates and rng.integers(LEAKY) == 0:
        ends |= {"low": held.low, "high": held.high, **_slope(numerics, rng)}
    if not by_channel(kind, numerics):
        ends |= {name: int(value[0]) for name, value in _scales(numerics, 1, rng, corner).items()}
    return ends


def _slope(numerics: Numerics, rng: np.random.Generator) -> dict[str, int]:
    """The slope of a leaky activation: the machine's, where it has but one."""
    shift = int(rng.integers(1, SLOPE_SHIFT + 1))
    slope = numerics.leaky or Fraction(int(rng.integers(1, 1 << shift)), shift)
    return {"slope": slope.numerator, "slope_shift": slope.shift}


def drawn_constants(kind: OperationKind, numbers: Mapping[str, int], rng: np.random.Generator) -> tuple[dict[str, int], float] | None:
    """Constants for random scales between 2**-9 and 2**-2, and the factor of a requantisation that gives results of all sizes; none of a kind
    without arithmetic of its own, None where the conditions on them hold for no scale that was tried."""
    own = kind.arithmetic
    if own is None:
        return {}, 1.0
    for _ in range(DRAWN):
        scales = {name: float(2.0 ** rng.uniform(-9, -2)) for name in kind.data}
        constants = constants_of(own, scales, numbers)
        if not unmet(own, {**numbers, **constants}):
            return constants, step_of(own, scales, {**numbers, **constants}) / (min(scales.values()) * 2.0 ** -int(rng.integers(0, 4)))
    return None


def _own_scale(numerics: Numerics, factor: float) -> dict[str, int]:
    """The factor of an exact result, where a machine has it in float32 or multiplies; shifts alone are as they were drawn."""
    if numerics.form == "float32":
        return {"scale_bits": int(np.float32(factor).view(np.int32))}
    if numerics.form != "multiplier":
        return {}
    bits = numerics.multiplier_bits
    shift = int(np.clip(bits - math.frexp(factor)[1], *_shifts(numerics)))
    return {"multiplier": int(np.clip(round(factor * 2.0**shift), 1, (1 << bits) - 1)), "shift": shift}


def _near_limits(numerics: Numerics, zero: int, rng: np.random.Generator) -> dict[str, int]:
    """Limits of which one or both, or none, are near the integer that stands for zero; as often those of ReLU6 in a scale that is a power of two."""
    least, most = numerics.activation.low, numerics.activation.high
    if rng.integers(3) == 0:
        return {"low": zero, "high": min(most, zero + (6 << int(rng.integers(0, SIX))))}
    low = one_of(rng, [least, zero, max(least, zero - int(rng.integers(1, LITTLE)))])
    return {"low": low, "high": one_of(rng, [most, min(most, zero + int(rng.integers(1, LITTLE)))])}


def _scales(numerics: Numerics, count: int, rng: np.random.Generator, corner: bool) -> dict[str, NDArray[np.int32]]:
    """Random scales of sums, by the names of an operation's numbers. corner: powers of two that are not far below 1."""
    shift = rng.integers(0, 4 if corner else 12, count)
    if numerics.form == "float32":
        return {"scale_bits": np.ldexp(1.0 if corner else rng.random(count) + 0.5, -shift).astype(np.float32).view(np.int32)}
    if numerics.form == "power_of_two":
        return {"shift": shift.astype(np.int32)}
    least = 1 << (numerics.multiplier_bits - 1)
    multiplier = np.full(count, least) if corner else rng.integers(least, 2 * least, count)
    return {"multiplier": multiplier.astype(np.int32), "shift": np.clip(shift + numerics.multiplier_bits, *_shifts(numerics)).astype(np.int32)}


def _shifts(numerics: Numerics) -> tuple[int, int]:
    return numerics.shift.low, min(numerics.shift.high, LONGEST)


def _channels(kind: OperationKind, numerics: Numerics, numbers: Mapping[str, int], rng: np.random.Generator, corner: bool) -> dict[str, Array]:
    """Scales per channel, where the machine has them."""
    if not by_channel(kind, numerics):
        return {}
    count = numbers[kind.operand[kind.bias].extents[0]]
    names = {"multiplier": "multipliers", "shift": "shifts", "scale_bits": "scales"}
    found = {names[name]: array for name, array in _scales(numerics, count, rng, corner).items()}
    if numerics.form == "power_of_two":
        found["shifts"] = np.minimum(found["shifts"] + rng.integers(0, 9), found["shifts"].min() + numerics.shift_span).astype(np.int32)
    return {name: array.view(np.float32) if name == "scales" else array for name, array in found.items()}


def _array(kind: OperationKind, name: str, numbers: Mapping[str, int], numerics: Numerics, rng: np.random.Generator, corner: bool) -> Array:
    shape = [numbers[extent] for extent in kind.operand[name].extents]
    if numerics.floats is not None:
        found = random_halves(shape, rng, numerics.floats.format, corner)
        return found.astype(np.float32) if name == kind.bias else found
    if name == kind.channel_factors:
        return rng.integers(1, most_factor(kind, numbers) + 1, shape).astype(np.int8)
    if name != kind.bias:
        return rng.integers(-1, 2, shape).astype(np.int8) if corner else rng.integers(-128, 128, shape).astype(np.int8)
    most = LITTLE if corner else 9000
    stored = rng.integers(max(numerics.bias.low, -most), min(numerics.bias.high, most) + 1, shape).astype(np.int32)
    shift = numerics.bias_shift
    return stored << int(rng.integers(shift.low, min(shift.high, shift.low + 6) + 1)) if shift.high else stored


def random_halves(shape: Sequence[int], rng: np.random.Generator, form: Format, corner: bool = False, infinite: bool = False) -> Array:
    """In what holds the format. corner: small whole numbers and eighths, whose sums are exact or ties, with some of CORNERS; else normal ones
    of one size. infinite: whether an infinity may be among them."""
    shape = tuple(shape)
    if corner:
        found = (rng.integers(-16, 17, shape) / 8).astype(DTYPES[form])
        found = np.where(rng.random(shape) < 1 / 16, rng.choice(rounded(CORNERS, form), shape), found)
    else:
        found = rounded(rng.standard_normal(shape) * 2.0 ** int(rng.integers(-12, 5)), form)
    if infinite and found.size and rng.integers(INFINITE) == 0:
        found.flat[int(rng.integers(found.size))] = np.inf * rng.choice([-1, 1])
    return found


def random_bounds(rng: np.random.Generator) -> Bounds:
    """No activation, ReLU, ReLU6, limits around zero, or a slope below zero."""
    limits = Bounds(-float(rng.integers(1, 9)) / 4, float(rng.integers(1, 9)) / 4)
    return (Bounds(), Bounds(low=0.0), Bounds(0.0, 6.0), limits, Bounds(slope=0.25))[int(rng.integers(5))]
