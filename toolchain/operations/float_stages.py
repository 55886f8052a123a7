"""Stages of an operation in a machine's floating format, and the order in which it adds up: numbers are float32, each step is rounded, and the result
is rounded once to the format, f16 or bf16. numpy holds numbers of f16 in float16, those of bf16 in float32 whose lower half is zero.

Apart from the engines: float32 and float16 are numpy's, and functions of halves are those of float64, rounded. Their exact values are no ties of
float16, so rounding float64's number gives the nearest half; the tests hold the engines' tables against it."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, reduce
from types import MappingProxyType
from typing import Final

import numpy as np

from toolchain.operations.kind import OperationKind, Stage
from toolchain.operations.reads import Place, Read, elements_of, in_parts, read_all
from toolchain.operations.whole import erf, evaluate_in
from toolchain.spec.arrays import Array, Floats, Ints, Reals
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Expr
from toolchain.spec.model.quantisation import Format, SumOrder

SINGLE = np.dtype(np.float32)
DTYPES: Final = {"f16": np.dtype(np.float16), "bf16": SINGLE}
"""The dtype that holds the numbers of a format."""
GREATEST: Final = {"f16": 65504.0, "bf16": float.fromhex("0x1.fep127")}
"""The greatest finite number."""
LOWER = 16
"""Bits of a float32 that bf16 has not."""


def rounded(x: Array, form: Format) -> Array:
    """Numbers as a format has the nearest ones, ties to even, in what holds them; every NaN is the one that arithmetic gives: quiet, without sign and
    payload. x: floating."""
    dtype = DTYPES[form]
    held = x.astype(dtype) if form == "f16" else _brain(x)
    return np.where(np.isnan(held), dtype.type(np.nan), held)


def _brain(x: Array) -> Array:
    single = x.astype(SINGLE)
    bits = single.view(np.uint32).astype(np.int64)
    nearer = _nearer(x, single, bits) if x.dtype == np.float64 else 0
    near = np.where(np.isnan(single), bits, bits + nearer + 0x7FFF + (bits >> LOWER & 1))
    return (near >> LOWER << LOWER).astype(np.uint32).view(SINGLE)


def _nearer(x: Array, single: Array, bits: Ints) -> Ints:
    """1 or -1 where float32 took a float64 to the middle between two numbers to one of which it is nearer, else 0: to the larger or the smaller
    magnitude."""
    middle = np.isfinite(single) & (bits & 0xFFFF == 0x8000)  # others do not count, infinities among them
    with np.errstate(invalid="ignore"):
        off = np.where(middle, np.abs(x) - np.abs(single.astype(np.float64)), 0)
    return np.sign(off).astype(np.int64)


def bits_of_held(array: Array) -> Array:
    """Signed integers of the bits that a format of 16 bits has; of the numbers that DTYPES hold."""
    if array.dtype != SINGLE:
        return array.view(np.int16)
    return (array.view(np.int32) >> LOWER).astype(np.int16)


def held_of_bits(bits: Ints, form: Format) -> Array:
    """The numbers with these bits, int64 or narrower of a sign; the inverse of `bits_of_held`."""
    if form == "f16":
        return bits.astype(np.int16).view(DTYPES[form])
    return (bits.astype(np.int32) << LOWER).view(SINGLE)


PART = 1 << 17
"""Elements of a result that are computed at once: few enough that several of a sum's terms are, too."""
AT_ONCE = 1 << 20
"""Elements of a sum's terms that are computed at once, unless one term has more."""
Terms = Callable[[Sequence[Place]], Floats]
"""float32 of the terms at these places: the first axis counts them, or has extent 1 where all are alike."""


def blocks_of(over: Mapping[str, str], numbers: Mapping[str, int], order: SumOrder) -> Iterator[list[Place]]:
    """The places of a sum's terms, block by block, each in its order. Without blocks each term is one. over: reduced indices, with their extents."""
    further = {index: range(*(constant(end, numbers) for end in ends)) for index, ends in order.over}
    ranges = [further.get(index, range(numbers[extent])) for index, extent in over.items()]
    places: list[Place] = [dict(zip(over, place, strict=True)) for place in itertools.product(*ranges)]
    keyed = [(_key(order.blocks, numbers, place), _key(order.terms, numbers, place), place) for place in places]
    keyed.sort(key=lambda each: each[:2])
    if not order.blocks:
        yield from ([place] for _, _, place in keyed)
        return
    for _, block in itertools.groupby(keyed, key=lambda each: each[0]):
        yield [place for _, _, place in block]


def _key(exprs: Sequence[Expr], numbers: Mapping[str, int], place: Place) -> tuple[int, ...]:
    return tuple(constant(expr, {**numbers, **place}) for expr in exprs)


def in_turn(terms: Terms, places: Sequence[Place], loops: Mapping[str, range]) -> Iterator[Floats]:
    """One term after the other. loops: over all elements of a term."""
    count = max(1, AT_ONCE // max(1, elements_of(loops)))
    for at in range(0, len(places), count):
        some = places[at : at + count]
        yield from np.broadcast_to(found := terms(some), (len(some), *found.shape[1:]))


def added_up(terms: Terms, blocks: Sequence[Sequence[Place]], loops: Mapping[str, range]) -> Floats:
    """The sum of the terms at the places of all blocks, from zero, in their order; each sum is rounded to float32."""
    whole = np.zeros(1, SINGLE)
    found = in_turn(terms, [place for block in blocks for place in block], loops)
    for block in blocks:
        whole = whole + reduce(np.add, itertools.islice(found, len(block)))
    return whole


def evaluate_halves(kind: OperationKind, numbers: Mapping[str, int], arrays: Mapping[str, Array], form: Format = "f16") -> Array:
    """An array of the result's axes. arrays: of the operands' axes, in what holds the format, and a float32 bias."""
    known: dict[str, Array] = {name: np.asarray(array, SINGLE) for name, array in arrays.items()}
    with np.errstate(all="ignore"):
        for stage in kind.halves:
            loops = {index: range(numbers[kind.indices[index]]) for index in stage.axes}
            blocks = list(blocks_of(stage.over, numbers, stage.order)) if stage.reduction else []
            known[stage.name] = in_parts(loops, stage.axes, is_small, partial(_part, stage, numbers, known, blocks, form))
        return rounded(known[kind.result.name], form)


def is_small(loops: Mapping[str, range]) -> bool:
    """Whether a part of a result over these loops is computed at once."""
    return elements_of(loops) <= PART


def _part(
    stage: Stage, numbers: Mapping[str, int], known: Mapping[str, Array], blocks: Sequence[Sequence[Place]], form: Format, loops: Mapping[str, range]
) -> Floats:
    """float32, of the stage's axes. blocks: the places of its sum, or choice."""

    def terms(places: Sequence[Place]) -> Floats:
        return _value(read_all(known, numbers, loops, 0, unbounded=False, terms=places), stage.of, form)

    match stage.reduction:
        case "":
            found = _value(read_all(known, numbers, loops, 0, unbounded=False), stage.of, form)
        case "sum":
            found = added_up(terms, blocks, loops)
        case choice:
            found = reduce(_larger if choice == "max" else _smaller, in_turn(terms, [*itertools.chain.from_iterable(blocks)], loops))
    return np.broadcast_to(found, [len(loop) for loop in loops.values()]).copy()


def _value(scope: Read, expr: Expr, form: Format) -> Floats:
    ready, read = scope.opened(expr)
    return evaluate_in(np.float32, FLOAT_FUNCTIONS[form], ready, {**scope.names, **read})


def _rounded(form: Format, x: Array) -> Floats:
    """A number of the format, as float32."""
    return rounded(x, form).astype(SINGLE)


def _larger(a: Floats, b: Floats) -> Floats:
    """NaN where either is; -0 is below 0."""
    return np.where((a == 0) & (b == 0), a + b, np.maximum(a, b))


def _smaller(a: Floats, b: Floats) -> Floats:
    return -_larger(-a, -b)


def _of_half(form: Format, function: Callable[[Reals], Reals], x: Floats) -> Floats:
    """The function of a value rounded to the format, rounded to it."""
    return _rounded(form, function(_rounded(form, x).astype(np.float64)))


def _functions(form: Format) -> Mapping[str, Callable[..., Floats]]:
    of_halves: Mapping[str, Callable[[Reals], Reals]] = {"exp": np.exp, "log": np.log, "tanh": np.tanh, "erf": erf}
    found: dict[str, Callable[..., Floats]] = {name: partial(_of_half, form, function) for name, function in of_halves.items()}
    found |= {"half": partial(_rounded, form), "sqrt": np.sqrt, "ratio": np.divide, "abs": np.abs}
    return MappingProxyType({**found, "min": lambda *values: reduce(_smaller, values), "max": lambda *values: reduce(_larger, values)})


FLOAT_FUNCTIONS: Mapping[Format, Mapping[str, Callable[..., Floats]]] = MappingProxyType({"f16": _functions("f16"), "bf16": _functions("bf16")})
"""By format, functions of stages in a floating format. exp, log, tanh and erf take and give numbers of it, all
others float32; min and max give NaN where one is."""
FLOAT_ARGUMENTS: Mapping[str, int] = MappingProxyType({"half": 1, "exp": 1, "log": 1, "tanh": 1, "erf": 1, "sqrt": 1, "ratio": 2, "from_bits": 1})
"""How many arguments those take that whole numbers do not have; from_bits(n) is the float32 with the bits of a whole number."""
