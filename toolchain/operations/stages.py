"""Run a computation in stages, element by element: each reads operands and earlier stages, and may reduce over axes."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from toolchain.operations.kind import OperationKind, Stage
from toolchain.operations.reads import in_parts, read_all
from toolchain.spec.arrays import Array
from toolchain.spec.expr import Expr

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
        known[stage.name] = in_parts(loops, stage.axes, _is_small, partial(_whole, stage, numbers, known, evaluate))
    return known[kind.result.name]


def _is_small(loops: Mapping[str, range]) -> bool:
    return math.prod(map(len, loops.values())) <= MOST


def _whole(stage: Stage, numbers: Mapping[str, int], known: Mapping[str, Array], evaluate: Evaluate, loops: Mapping[str, range]) -> Array:
    scope, sizes = read_all(known, numbers, loops, 0, unbounded=False), [len(loop) for loop in loops.values()]
    ready, read = scope.opened(stage.of)
    values = evaluate(ready, {**scope.names, **read})
    full = np.broadcast_to(values, sizes) if sizes else values.reshape(())
    return _REDUCE[stage.reduction](full, tuple(range(len(stage.axes), len(sizes)))) if stage.reduction else np.array(full)
