"""Run a computation in stages, element by element: each reads operands and earlier stages, and may reduce over axes."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from toolchain.operations.kind import OperationKind, Stage
from toolchain.spec.arrays import Array, Ints, evaluate_arrays
from toolchain.spec.expr import Expr, Index, Name, rewrite

Evaluate = Callable[[Expr, Mapping[str, Array]], Array]
"""The value of an expression over arrays that broadcast."""
_REDUCE: Mapping[str, Callable[..., Array]] = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min}
MOST = 1 << 22
"""Elements of a stage, reduced ones included, that are computed at once."""


def run_stages(kind: OperationKind, stages: Sequence[Stage], numbers: Mapping[str, int], operands: Mapping[str, Array], evaluate: Evaluate) -> Array:
    """The last stage: of the result's axes, in the type that `evaluate` gives."""
    known = dict(operands)
    indices = {index: extent for each in (*kind.operands, kind.result) for index, extent in each.axes.items()}
    for stage in stages:
        extents = {**{index: indices[index] for index in stage.axes}, **stage.over}
        loops = {index: range(numbers[extent]) for index, extent in extents.items()}
        known[stage.name] = _parts(stage, loops, numbers, known, evaluate)
    return known[kind.result.name]


def _parts(stage: Stage, loops: dict[str, range], numbers: Mapping[str, int], known: Mapping[str, Array], evaluate: Evaluate) -> Array:
    """A stage over these loops, cut along its longest axis until a part is small enough."""
    sizes = {index: len(loops[index]) for index in stage.axes}
    longest = max(sizes, key=lambda index: sizes[index], default="")
    if not longest or sizes[longest] == 1 or math.prod(map(len, loops.values())) <= MOST:
        return _whole(stage, loops, numbers, known, evaluate)
    loop, half = loops[longest], sizes[longest] // 2
    parts = [_parts(stage, {**loops, longest: part}, numbers, known, evaluate) for part in (loop[:half], loop[half:])]
    return np.concatenate(parts, stage.axes.index(longest))


def _whole(stage: Stage, loops: Mapping[str, range], numbers: Mapping[str, int], known: Mapping[str, Array], evaluate: Evaluate) -> Array:
    grid = np.meshgrid(*(np.arange(loop.start, loop.stop) for loop in loops.values()), indexing="ij", sparse=True)
    names: dict[str, Ints] = {name: np.asarray(value, np.int64) for name, value in numbers.items()} | dict(zip(loops, grid, strict=True))
    read: dict[str, Array] = {}

    def change(e: Expr) -> Expr | None:
        if isinstance(e, Index) and isinstance(e.base, Name):
            places = tuple(evaluate_arrays(part, {"": np.zeros((1,) * len(loops), np.int64), **names}) for part in e.index)
            read[f"[{len(read)}]"] = known[e.base.id][places]
            return Name(f"[{len(read) - 1}]")
        return None

    ready = rewrite(stage.of, change)
    values = np.broadcast_to(evaluate(ready, {**names, **read}), [len(loop) for loop in loops.values()])
    axes = tuple(range(len(stage.axes), len(loops)))
    return _REDUCE[stage.reduction](values, axes) if stage.reduction else np.array(values)
