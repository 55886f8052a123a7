"""Few rows and columns stand for all where every operator does the same everywhere; else nothing is left out."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.graph.imported import F, imported, normal
from toolchain.graph import equivalence
from toolchain.graph.cropping import LEAST, cropped, enough
from toolchain.graph.equivalence import find_mismatch
from toolchain.graph.rewrite import add_constant

n = helper.make_node
SHAPE = (1, 3, 40, 60)
CONSTANTS = {
    "w": normal(1, 3, 3, 3, 3), "wide": normal(2, 3, 3, 7, 5), "b": normal(3, 3), "of_channels": normal(4, 3, 1, 1), "of_columns": normal(5, 60),
    "one": F(2), "shape": np.array([1, -1]), **{name: np.abs(normal(k, 3)) + F(0.5) for k, name in enumerate("stmv")},
}  # fmt: skip
CASES = [
    ([n("Conv", ["x", "w"], ["y"])], LEAST),
    ([n("Conv", ["x", "wide"], ["y"])], 14),
    ([n("Conv", ["x", "w"], ["y"], dilations=[4, 4])], 18),
    ([n("Conv", ["x", "w", "b"], ["a"]), n("BatchNormalization", ["a", *"stmv"], ["c"]), n("Relu", ["c"], ["y"])], LEAST),
    ([n("Mul", ["x", "of_channels"], ["a"]), n("Add", ["a", "one"], ["y"])], LEAST),
    ([n("Mul", ["x", "of_columns"], ["y"])], 0),
    ([n("Conv", ["x", "w"], ["y"], auto_pad="SAME_UPPER")], 0),
    ([n("GlobalAveragePool", ["x"], ["y"])], 0),
    ([n("Reshape", ["x", "shape"], ["y"])], 0),
]


@pytest.mark.parametrize(("nodes", "wanted"), CASES)
def test_what_is_enough(nodes: Sequence[onnx.NodeProto], wanted: int, tmp_path: Path) -> None:
    model = imported(tmp_path, nodes, SHAPE, CONSTANTS)
    assert enough(model.graph.inputs, list(model.graph), {}) == wanted
    assert cropped(model.graph.inputs[0], wanted) == ((*SHAPE[:2], wanted, wanted) if wanted else SHAPE)


def test_a_convolution_of_one_operand_and_another_keep_their_sizes(tmp_path: Path) -> None:
    model = imported(tmp_path, [n("Conv", ["x", "w"], ["a"], strides=[2, 2]), n("Relu", ["a"], ["y"])], SHAPE, CONSTANTS)
    assert enough([model.graph.inputs[0], next(iter(model.graph)).outputs[0]], list(model.graph), {}) == 0
    assert enough([model.graph.inputs[0]] * 2, list(model.graph), {}) == 0
    assert enough([], list(model.graph), {}) == 0


@pytest.mark.parametrize("row", range(3))
@pytest.mark.parametrize("column", range(3))
def test_every_tap_of_a_kernel_shows(row: int, column: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fed: list[tuple[int, ...]] = []
    made_up = equivalence._made_up  # pyright: ignore[reportPrivateUsage]

    def watched(value: object, shape: tuple[int, ...], *more: object) -> object:
        fed.append(shape)
        return made_up(value, shape, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(equivalence, "_made_up", watched)
    nodes = [n("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1], strides=[2, 2])]
    one, other = (imported(tmp_path, nodes, SHAPE, CONSTANTS) for _ in range(2))
    changed = CONSTANTS["w"].copy()
    changed[2, 1, row, column] += 0.1
    next(iter(other.graph)).replace_input_with(1, add_constant(other.graph, "changed", changed))
    found = find_mismatch(one, other, {})
    assert found is not None
    assert found.tensor == "y"
    assert fed == [(1, 3, LEAST, LEAST)]
