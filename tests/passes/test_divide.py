"""A region in parts: the same nodes and tensors, each part a function with the facts of the whole."""

import numpy as np
import onnx_ir as ir
import pytest

from tests.runtime import small
from toolchain.graph.integers.functions import kind_of
from toolchain.graph.regions import BATCH, region_calls, region_function
from toolchain.graph.session import open_session, run_session
from toolchain.passes.divide import divide_region


def model() -> ir.Model:
    """Its first region is two convolutions, its second one."""
    found = ir.from_proto(ir.to_proto(small.network()[1]))
    for call in region_calls(found):
        region_function(found, call).metadata_props[BATCH] = "1"
    return found


def outputs(given: ir.Model) -> list[np.typing.NDArray[np.generic]]:
    found = run_session(open_session(ir.to_proto(given).SerializeToString(), optimise=False), {"x": small.images(1)})
    return [*found.values()]


def test_parts_are_regions_that_hand_over() -> None:
    divided = model()
    calls = divide_region(divided, region_calls(divided)[0], {"a": {"conv1.y"}, "b": {"conv2.y"}})
    assert [call.op_type for call in region_calls(divided)] == ["a", "b", "region1"]
    assert [[value.name for value in call.outputs] for call in calls] == [["conv1.y"], ["conv2.y"]]
    assert calls[1].inputs[0] is calls[0].outputs[0]
    assert [region_function(divided, call).metadata_props[BATCH] for call in calls] == ["1", "1"]
    assert all(np.array_equal(one, other) for one, other in zip(outputs(model()), outputs(divided), strict=True))


@pytest.mark.parametrize("parts", [{"a": {"conv1.y"}}, {"b": {"conv2.y"}}], ids=["reads it", "is read by it"])
def test_a_node_that_makes_no_result_goes_with_its_neighbours(parts: dict[str, set[str]]) -> None:
    """A convolution that no part names stands for such a node: it goes with its reader, or, where none reads it, with the maker of its operand."""
    whole = model()
    calls = divide_region(whole, region_calls(whole)[0], parts)
    assert len(calls) == 1
    assert [kind_of(node) for node in region_function(whole, calls[0])] == ["conv2d", "conv2d"]
