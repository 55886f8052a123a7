"""Softmax, LogSoftmax and Hardmax over all dimensions from an axis on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.importing.opsets.oracle import build, check, kinds, n, normal, refusal

SIZES = st.lists(st.sampled_from([1, 1, 2, 3, 5]), min_size=1, max_size=5)


@settings(max_examples=45, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(["Softmax", "LogSoftmax", "Hardmax"]), st.sampled_from([1, 7, 11, 12]), SIZES, st.data())
def test_all_dimensions_from_the_axis_on(seed: int, kind: str, opset: int, sizes: list[int], data: st.DataObject) -> None:
    axis = data.draw(st.sampled_from([*range(-len(sizes) if opset >= 11 else 0, len(sizes))] + ([None] if len(sizes) > 1 else [])))
    x = {"x": np.random.default_rng(seed).integers(-3, 4, sizes).astype(np.float32)}
    model = build([n(kind, ["x"], ["y"], "s", **({} if axis is None else {"axis": axis}))], x, opset)
    result = check(model, x, exact=kind == "Hardmax")
    wide = [size for size in sizes[1 if axis is None else axis :] if size > 1]
    assert kinds(result) == ([kind] if len(wide) < 2 else ["Flatten", "Shape", kind, "Reshape"])


@pytest.mark.parametrize("shape", [["batch", 3, 4], ["batch", "length", 4], None])
def test_sizes_that_are_not_known_yet(shape: list[str | int] | None) -> None:
    x = {"x": normal(0, 2, 3, 4)}
    model = build([n("Softmax", ["x"], ["y"], "s")], x, 11)
    model.graph.input[0].type.tensor_type.ClearField("shape")
    for size in shape or []:
        entry = model.graph.input[0].type.tensor_type.shape.dim.add()
        setattr(entry, "dim_param" if isinstance(size, str) else "dim_value", size)
    assert kinds(check(model, x, exact=False)) == ["Flatten", "Shape", "Softmax", "Reshape"]


def test_nothing_to_compute() -> None:
    x = {"x": np.zeros((2, 0, 3), np.float32)}
    check(build([n("Softmax", ["x"], ["y"], "s")], x, 11), x)


def test_an_axis_that_is_not_there_is_refused() -> None:
    x = {"x": normal(0, 4)}
    assert "a tensor of 1 dimensions has no axis 1" in refusal(build([n("Softmax", ["x"], ["y"], "s")], x, 9))


def test_tensors_keep_their_names() -> None:
    x = {"x": normal(0, 2, 3, 4)}
    result = check(build([n("Softmax", ["x"], ["p"], "s"), n("Relu", ["p"], ["y"], "r")], x, 11), x, exact=False)
    assert [(node.name, list(node.output)) for node in result.graph.node] == [
        ("s.flatten", ["s.flatten"]),
        ("s.shape", ["s.shape"]),
        ("s", ["s.inner"]),
        ("s.reshape", ["p"]),
        ("r", ["y"]),
    ]
