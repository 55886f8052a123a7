"""Operands of an attention: heads that are repeated for their queries are found, and other repetitions are not."""

from pathlib import Path

import numpy as np
import pytest

from tests.graph.imported import imported
from tests.graph.onnx_builder import n
from toolchain.passes.attention_operands import Operand, split

BY_HEADS = (0, 2, 1, 3)


def of(folder: Path, axis: int, times: list[int], sizes: list[int]) -> Operand | None:
    """Of x [1, 5, 16] in two heads of 8 channels, repeated."""
    nodes = [
        n("Reshape", ["x", "apart"], ["a"], "a"),
        n("Transpose", ["a"], ["b"], "b", perm=BY_HEADS),
        n("Unsqueeze", ["b", "axis"], ["c"], "c"),
        n("Expand", ["c", "times"], ["d"], "d"),
        n("Reshape", ["d", "sizes"], ["e"], "e"),
        n("Relu", ["e"], ["y"], "y"),
    ]
    constants = {"apart": [0, 0, 2, 8], "axis": [axis], "times": times, "sizes": sizes}
    model = imported(folder, nodes, (1, 5, 16), {name: np.array(numbers, np.int64) for name, numbers in constants.items()})
    return split(model.graph.node("y").inputs[0], BY_HEADS)


@pytest.mark.parametrize("share", [2, 3])
def test_heads_that_queries_share(share: int, tmp_path: Path) -> None:
    found = of(tmp_path, 2, [1, 1, share, 1, 1], [1, 2 * share, 5, 8])
    assert found is not None
    assert (found.source.name, found.heads, found.share, [node.name for node in found.taken]) == ("x", 2, share, ["e", "d", "c", "b", "a"])


def test_all_heads_behind_each_other_again_are_others(tmp_path: Path) -> None:
    """As Tile makes them: head 0, head 1, head 0, head 1."""
    assert of(tmp_path, 1, [1, 2, 1, 1, 1], [1, 4, 5, 8]) is None
    assert of(tmp_path, 3, [1, 1, 1, 2, 1], [1, 4, 5, 8]) is None
