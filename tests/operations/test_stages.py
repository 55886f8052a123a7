"""Stages: index arithmetic, reductions, and parts that make the same whole."""

import numpy as np
import pytest

from toolchain.operations import stages
from toolchain.operations.library import builtin_kinds
from toolchain.operations.reals import evaluate_stages
from toolchain.spec.errors import UserError

KINDS = builtin_kinds()
NUMBERS = {"batch": 2, "rows": 3, "keys": 4, "channels": 6, "heads": 2, "inner": 3, "cells": 8}


def shares(x: np.typing.NDArray[np.float64], z: np.typing.NDArray[np.float64]) -> np.typing.NDArray[np.float64]:
    """By numpy's own product of heads, [batch, rows, heads * keys]."""
    queries, keys = (each.reshape(2, -1, 2, 3).transpose(0, 2, 1, 3) for each in (x, z))
    scores = queries @ keys.transpose(0, 1, 3, 2) / np.sqrt(3)
    power = np.exp(scores - scores.max(-1, keepdims=True))
    return (power / power.sum(-1, keepdims=True)).transpose(0, 2, 1, 3).reshape(2, 3, 8)


@pytest.mark.parametrize("most", [1, 7, 1 << 22])
def test_parts_make_the_same_whole(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "MOST", most)
    rng = np.random.default_rng(most)
    x, z = rng.normal(size=(2, 3, 6)), rng.normal(size=(2, 4, 6))
    np.testing.assert_allclose(evaluate_stages(KINDS["attention_probabilities"], NUMBERS, {"x": x, "z": z}), shares(x, z))


def test_a_read_past_an_edge_is_told() -> None:
    with pytest.raises(UserError, match="E1301 'z' is read outside its extents"):
        evaluate_stages(KINDS["attention_probabilities"], {**NUMBERS, "keys": 5, "cells": 10}, {"x": np.zeros((2, 3, 6)), "z": np.zeros((2, 4, 6))})
