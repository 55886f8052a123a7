"""Compares tensors element by element, puts the comparisons of several runs together, and runs steps in a row beside the integer model."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from toolchain.graph.integers.calls import check_oracle, integer_tensors
from toolchain.graph.quantisation.table import sample_at
from toolchain.graph.session import run_session
from toolchain.graph.states import Sequences, Tensors, each_step
from toolchain.graph.store import open_model
from toolchain.runtime.step_session import StepSession
from toolchain.spec.arrays import Array
from toolchain.spec.model import Tolerance
from toolchain.verify.verdict import Compared, Coordinates, StepsVerdict

LAST_BITS = 2.0
"""Results may be so many times as far away as the last bits of their operands move them. Of ONNX Runtime's own LayerNormalization of nearly equal
numbers the error is at most as much (measured, rows of 7 to 768)."""


@dataclass(frozen=True)
class FirstDifference:
    """In row-major order; differing: how many elements there are in all."""

    coordinates: Coordinates
    expected: float
    found: float
    differing: int


def first_difference(expected: Array, found: Array) -> FirstDifference | None:
    """None where both are equal; a NaN equals another. Raises ValueError where shapes are not."""
    if expected.shape != found.shape:
        raise ValueError(f"{expected.shape} is compared with {found.shape}")
    differs = (expected != found) & ~((expected != expected) & (found != found))
    count = int(np.count_nonzero(differs))
    if not count:
        return None
    place = tuple(int(k) for k in np.unravel_index(int(np.argmax(differs)), differs.shape))
    return FirstDifference(place, expected[place].item(), found[place].item(), count)


def stacked(samples: Sequence[Any]) -> Array:
    """[samples, *shape] of the results of samples; where these are no tensors, or have different shapes, [samples] objects."""
    if all(isinstance(each, np.ndarray) for each in samples) and len({(each.shape, each.dtype) for each in samples}) == 1:
        return np.stack(samples)
    held = np.empty(len(samples), object)
    for number, each in enumerate(samples):
        held[number] = each
    return held


def differing_bits(expected: Array, found: Array) -> int:
    """Elements whose bytes differ: -0.0 is not 0.0, and a NaN equals itself. Another shape or type differs everywhere.

    Elements may be objects (see `stacked`); texts are such.
    """
    if expected.shape != found.shape or expected.dtype != found.dtype:
        return max(expected.size, found.size, 1)
    if expected.dtype.hasobject:
        return sum(map(_differing, expected.reshape(-1).tolist(), found.reshape(-1).tolist()))
    return int(np.count_nonzero(distant(expected, found, None)))


def _differing(one: Any, other: Any) -> int:
    """Elements that differ between two results of any kind: tensors, lists and maps of such, texts, numbers."""
    kind: Any = one.__class__
    if kind is not other.__class__:
        return 1
    if issubclass(kind, np.ndarray):
        return differing_bits(one, other)
    if kind is list and len(one) == len(other):
        return sum(map(_differing, one, other))
    if kind is dict and one.keys() == other.keys():
        return sum(_differing(each, other[key]) for key, each in one.items())
    return int(one != other and not (one != one and other != other))


def distant(expected: Array, found: Array, tolerance: Tolerance | None, moves: Array | float = 0.0) -> NDArray[np.bool_]:
    """The elements of `found` that may not be as they are; without a tolerance those whose bytes differ. Of the shape of `expected`.

    All of them where `found` has another shape or type. moves: how far expected elements move with the last bits of their inputs (see
    `moves_of`); LAST_BITS times as much is allowed beside the tolerance.
    """
    if expected.shape != found.shape or expected.dtype != found.dtype:
        return np.ones(expected.shape, np.bool_)
    if tolerance is None:
        width = expected.dtype.itemsize
        a, b = (np.ascontiguousarray(x).reshape(-1).view(np.uint8).reshape(-1, width) for x in (expected, found))
        return (a != b).any(axis=1).reshape(expected.shape)
    return ~np.isclose(found, expected, rtol=tolerance.relative, atol=tolerance.absolute + LAST_BITS * moves, equal_nan=True)


def nudged(array: Array) -> Array:
    """Each finite floating-point number moved by its last bit, up or down at random, the same way every time."""
    if array.dtype.kind != "f":
        return array
    ends = np.random.default_rng(0).choice(np.array([-np.inf, np.inf], array.dtype), array.shape)
    return np.where(np.isfinite(array), np.nextafter(array, ends), array)


def moves_of(expected: Array, moved: Array) -> Array:
    """How far results move when their inputs are `nudged`: nearer no order of sums can promise to be. 0 where it says nothing.

    Of a row the largest: a single element may stay where it is by chance.
    """
    if expected.shape != moved.shape or expected.dtype.kind != "f" or not expected.size:
        return np.zeros(expected.shape)
    with np.errstate(invalid="ignore"):
        apart = np.nan_to_num(np.abs(moved.astype(np.float64) - expected), nan=0.0, posinf=0.0)
    return np.broadcast_to(apart.max(axis=-1, keepdims=True) if apart.ndim else apart, apart.shape)


def told_difference(expected: Array, found: Array, differs: NDArray[np.bool_]) -> str:
    """The first element, in row-major order, that differs, and how many do."""
    place = tuple(int(index) for index in np.argwhere(differs)[0])
    return f"makes {found[place]} at {list(place)}, not {expected[place]}; {int(differs.sum())} of {differs.size} elements differ"


def distance(expected: Array, found: Array) -> float:
    """The largest difference of two tensors of the same shape, infinite where one has a number and the other none."""
    if not expected.size:
        return 0.0
    with np.errstate(invalid="ignore"):
        apart = np.abs(found.astype(np.float64) - expected.astype(np.float64))
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    return float(np.max(np.where(same, 0.0, np.nan_to_num(apart, nan=np.inf))))


@dataclass(frozen=True)
class Comparison:
    """One run. during: tensors as soon as they were complete, in the same order in every run.

    again: outputs that were right then and not in the end.
    """

    during: tuple[Compared, ...]
    again: tuple[Compared, ...]


def unite(runs: Sequence[Comparison]) -> tuple[Compared, ...]:
    """One entry for each tensor: the elements of all runs, and the first difference of the first run that has one."""
    during = [_united(items) for items in zip(*(run.during for run in runs), strict=True)]
    again: dict[str, Compared] = {}
    for item in (item for run in runs for item in run.again):
        again.setdefault(item.tensor, item)
    return *during, *again.values()


def _united(items: Sequence[Compared]) -> Compared:
    found = [item.difference for item in items if item.difference]
    first = replace(found[0], differing=sum(difference.differing for difference in found)) if found else None
    return replace(items[0], elements=sum(item.elements for item in items), difference=first)


Samples = Mapping[str, Array]


def oracle_tensors(model: ir.Model, samples: Samples, more: Iterable[str] = ()) -> dict[str, Array]:
    """By tensor name, outputs included: [samples, *shape], or objects, see `stacked`.

    samples: by input, [samples, *shape]. more: names of other tensors that are asked for.

    Without ONNX Runtime's own rewriting: it rounds floating-point operators of a part otherwise than those of the whole.

    Raises UserError E0910 and E0914, ValueError where there is no sample.
    """
    check_oracle()
    asked = set(more)
    further = [value for node in model.graph for value in node.outputs if value.name in asked]
    session = open_model(model, [*integer_tensors(model), *further], optimise=False)
    counts = {len(array) for array in samples.values()} or {1}
    if counts == {0} or len(counts) > 1:
        raise ValueError("there is no sample, or inputs have different numbers of them")
    runs = [run_session(session, sample_at(samples, k)) for k in range(counts.pop())]
    given = {name: array for name, array in samples.items() if name in asked}
    return given | {name: stacked([run[name] for run in runs]) for name in runs[0]}


def first_samples(samples: Samples, count: int) -> dict[str, Array]:
    """Exactly `count` samples: the first ones, from the beginning again where there are fewer."""
    return {name: array[np.arange(count) % len(array)] for name, array in samples.items()}


MOST = 64
"""Steps of the one sequence that is compared."""


def compare_steps(session: StepSession, integer: ir.Model, sequences: Sequences, place: str = "") -> StepsVerdict:
    """session: before its first step. integer: the oracle. The states are compared after every step, whatever keeps them.

    Raises UserError E0910 where ONNX Runtime stops, E07xx where the device does.
    """
    oracle, steps, elements, first, differing = open_model(integer, [], optimise=False), 0, 0, "", 0

    def run(inputs: Tensors) -> Tensors:
        return run_session(oracle, inputs, place=place)

    for inputs, wanted in each_step(run, sequences, 0):
        found = _outputs(session, {name: inputs[name] for name in sequences.given}, sequences.pairs)
        apart = {name: differing_bits(wanted[name], found[name]) for name in wanted}
        first = first or next((f"'{name}' in step {steps}" for name, count in apart.items() if count), "")
        differing, elements, steps = differing + sum(apart.values()), elements + sum(array.size for array in wanted.values()), steps + 1
        if steps == MOST:
            break
    stay = sum(place.place == "device" for place in session.places)
    return StepsVerdict(steps, elements, differing, first, stay, len(session.places))


def _outputs(session: StepSession, inputs: Tensors, pairs: Mapping[str, str]) -> dict[str, Array]:
    """All outputs of a step, states among them."""
    found = dict(session.step(inputs).outputs)
    return found | {pairs[name]: array for name, array in session.states().items()}
