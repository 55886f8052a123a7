"""Operations in floating point, stage by stage, straight from their expressions: the yardstick for softmax, layer norms and tables."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from toolchain.operations.kind import OperationKind, Stage
from toolchain.operations.reals import Reals, evaluate_reals
from toolchain.spec.expr import Expr, Index, Name, rewrite

_REDUCE: Mapping[str, Any] = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min}


def evaluate_stages(kind: OperationKind, numbers: Mapping[str, int], operands: Mapping[str, Reals]) -> Reals:
    """float64, of the result's axes."""
    known = dict(operands)
    for stage in kind.meaning.stages:
        known[stage.name] = _stage(kind, stage, numbers, known)
    return known[kind.result.name]


def _stage(kind: OperationKind, stage: Stage, numbers: Mapping[str, int], known: Mapping[str, Reals]) -> Reals:
    indices = {index: extent for each in (*kind.operands, kind.result) for index, extent in each.axes.items()}
    loops = {index: numbers[indices[index]] for index in stage.axes} | {index: numbers[extent] for index, extent in stage.over.items()}
    grid = np.meshgrid(*(np.arange(size) for size in loops.values()), indexing="ij", sparse=True)
    names = dict(zip(loops, grid, strict=True))
    read: dict[str, Reals] = {}

    def change(e: Expr) -> Expr | None:
        if isinstance(e, Index) and isinstance(e.base, Name):
            places = [evaluate_reals(part, {**_floats(numbers), **_floats(names)}).astype(np.int64) for part in e.index]
            read[f"[{len(read)}]"] = known[e.base.id][tuple(places)]
            return Name(f"[{len(read) - 1}]")
        return None

    ready = rewrite(stage.of, change)
    values = np.broadcast_to(evaluate_reals(ready, {**_floats(numbers), **_floats(names), **read}), list(loops.values()))
    axes = tuple(range(len(stage.axes), len(loops)))
    return np.asarray(_REDUCE[stage.reduction](values, axes) if stage.reduction else values, np.float64)


def _floats(names: Mapping[str, Any]) -> dict[str, Reals]:
    return {name: np.asarray(value, np.float64) for name, value in names.items()}


def evaluate_table(kind: OperationKind, x: Reals) -> Reals:
    """A function of one element."""
    meaning = kind.meaning.of
    assert meaning is not None
    ready = rewrite(meaning, lambda e: Name("x") if isinstance(e, Index) else None)
    return np.broadcast_to(evaluate_reals(ready, {"x": x}), x.shape)
