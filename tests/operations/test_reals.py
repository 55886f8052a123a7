"""Stages in floating point against numpy's own."""

import numpy as np
import pytest

from toolchain.operations.library import builtin_kinds
from toolchain.operations.reals import evaluate_reals, evaluate_stages, evaluate_table
from toolchain.spec.errors import UserError
from toolchain.spec.expr import parse_expr

KINDS = builtin_kinds()
X = np.random.default_rng(0).normal(size=(2, 3, 5))


def test_softmax_and_layer_norm() -> None:
    numbers = {"batch": 2, "rows": 3, "channels": 5}
    power = np.exp(X - X.max(-1, keepdims=True))
    np.testing.assert_allclose(evaluate_stages(KINDS["softmax"], numbers, {"x": X}), power / power.sum(-1, keepdims=True))
    scale, offset = np.arange(5.0), np.arange(5.0) - 2
    wanted = (X - X.mean(-1, keepdims=True)) / np.sqrt(X.var(-1, keepdims=True) + 1e-5) * scale + offset
    np.testing.assert_allclose(evaluate_stages(KINDS["layer_norm"], numbers, {"x": X, "scale": scale, "offset": offset}), wanted)


def test_tables() -> None:
    np.testing.assert_allclose(evaluate_table(KINDS["sigmoid"], X), 1 / (1 + np.exp(-X)))
    np.testing.assert_allclose(evaluate_table(KINDS["hard_swish"], X), X * np.clip(X + 3, 0, 6) / 6)


def test_what_floating_point_does_not_have() -> None:
    with pytest.raises(UserError, match="E0122 this cannot be computed in floating point"):
        evaluate_reals(parse_expr("x << 2", lambda _line, _column: None), {"x": X})  # type: ignore[arg-type,return-value]
