"""Operands that stand at an axis: ONNX Runtime does not run these old forms, numpy says what they are."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.importing.opsets.oracle import build, check, kinds, n, normal, refusal

OPERATORS = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Pow": np.power, "Greater": np.greater, "Less": np.less}
KINDS = st.sampled_from([*OPERATORS, "And", "Or", "Xor", "Equal"])
LOGICAL = {"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor, "Equal": np.equal}
SHAPE = (2, 3, 4, 5)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([1, 3, 6]), KINDS, st.integers(0, 4), st.integers(0, 4), st.booleans())
def test_an_operand_at_an_axis(seed: int, opset: int, kind: str, start: int, length: int, constant: bool) -> None:
    rng = np.random.default_rng(seed)
    part = SHAPE[start : start + length]
    a, b = rng.uniform(1, 2, SHAPE).astype(np.float32), rng.uniform(1, 2, part).astype(np.float32)
    if kind in LOGICAL:
        a, b = a > 1.5, np.asarray(b > 1.5)
    want = (OPERATORS | LOGICAL)[kind](a, b.reshape(part + (1,) * (4 - start - len(part))) if part else b)
    suffix = start + len(part) == 4
    node = n(kind, ["a", "b"], ["y"], "o", broadcast=1, **({} if suffix and rng.random() < 0.5 else {"axis": start}))
    inputs = {"a": a} if constant else {"a": a, "b": b}
    result = check(build([node], inputs, opset, {"b": b} if constant else {}), inputs, [want], exact=kind != "Pow")
    assert kinds(result) == [kind] if suffix or not part else ["Unsqueeze", kind]


def test_same_shapes_and_single_elements() -> None:
    x = {"a": normal(0, 2, 3), "b": normal(1, 2, 3), "c": normal(2, 1, 1), "d": normal(3, 2)}
    check(build([n("Add", ["a", "b"], ["y"], "o")], x, 6), x, [x["a"] + x["b"]])
    check(build([n("Add", ["a", "c"], ["y"], "o", broadcast=1, axis=0)], x, 6), x, [x["a"] + x["c"]])
    check(
        build([n("Add", ["a", "d"], ["y"], "o", broadcast=1, axis=-2)], x | {"d": normal(3, 2)}, 6),
        x | {"d": normal(3, 2)},
        [x["a"] + normal(3, 2)[:, None]],
    )


def test_an_operand_that_does_not_fit_is_refused() -> None:
    x = {"a": normal(0, 2, 3), "b": normal(1, 2, 3)}
    text = refusal(build([n("Add", ["a", "b"], ["y"], "o", broadcast=1, axis=1)], x, 6))
    assert text == "node 'o' (Add): no equal form of operator set 6 in 21: 2 dimensions do not fit at axis 1 of 2"


@pytest.mark.parametrize("opset", [1, 6])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 3)])
def test_a_slope_for_each_channel(opset: int, shape: tuple[int, ...]) -> None:
    for slopes in (normal(2, 3), normal(2, 1), normal(2)):
        x = {"x": normal(1, *shape), "s": slopes}
        along = slopes.reshape(3, *(1,) * (len(shape) - 2)) if slopes.size == 3 else slopes
        check(build([n("PRelu", ["x", "s"], ["y"], "p")], x, opset), x, [np.where(x["x"] < 0, x["x"] * along, x["x"])])


@pytest.mark.parametrize("opset", [1, 6])
def test_bias_of_a_dense_layer(opset: int) -> None:
    x = {"a": normal(0, 2, 3), "b": normal(1, 4, 3), "c": normal(2, 4)}
    model = build([n("Gemm", ["a", "b", "c"], ["y"], "g", broadcast=1, transB=1, alpha=2.0)], x, opset)
    check(model, x, [2 * x["a"] @ x["b"].T + x["c"]], exact=False)
