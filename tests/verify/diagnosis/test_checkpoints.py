from dataclasses import replace

import numpy as np
import pytest

from tests.schedule.convolutions import convolution
from toolchain.abi.dram_map import Shape
from toolchain.schedule.regions.region import Bound, Region, Slice
from toolchain.verify.diagnosis.checkpoints import Checkpoint, find_checkpoints

SHAPE = Shape(1, 4, 4, 4)


def step(x: str, y: str) -> Bound:
    return Bound(convolution((1, 4, 4, 4), (4, 1, 1)), {"x": x, "y": y})


def side_by_side() -> Region:
    """a and b, made from x by two operations, stand in `both`, which a third one reads; x stands in `outer` beside nothing."""
    operations = step("x", "a"), step("a", "b"), step("both", "y")
    slices = {"a": Slice("both", 0), "b": Slice("both", 4), "x": Slice("outer", 0)}
    return Region("r", dict.fromkeys(("x", "a", "b", "both", "y", "outer"), SHAPE), ("x",), ("y",), operations, slices)


def test_tensors_are_complete_after_their_operations_last_instruction() -> None:
    owner = np.array([-1, 0, 0, -1, 1, 0, 1, 2, -1])
    assert find_checkpoints(side_by_side(), owner) == (
        Checkpoint(-1, 0, ("x", "outer")),
        Checkpoint(0, 6, ("a",)),
        Checkpoint(1, 7, ("b", "both")),
        Checkpoint(2, 8, ("y",)),
    )


def test_an_operation_that_is_done_early_is_looked_at_early() -> None:
    cuts = find_checkpoints(side_by_side(), np.array([0, 2, 1, 1]))
    assert [(cut.operation, cut.stop) for cut in cuts] == [(-1, 0), (0, 1), (2, 2), (1, 4)]


def test_an_operation_without_instructions_is_refused() -> None:
    with pytest.raises(ValueError, match="operation 1 has no instruction"):
        find_checkpoints(side_by_side(), np.array([0, 2]))


def test_what_is_read_out_of_a_tensor_is_complete_with_it() -> None:
    region = side_by_side()
    views = {"half": Slice("both", 4, view=True), "quarter": Slice("half", 2, view=True)}
    region = replace(region, tensors={**region.tensors, "half": SHAPE, "quarter": SHAPE}, slices={**region.slices, **views})
    done = {name: cut.operation for cut in find_checkpoints(region, np.array([0, 1, 2])) for name in cut.tensors}
    assert done["half"] == done["quarter"] == done["both"]
