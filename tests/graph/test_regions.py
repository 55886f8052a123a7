import numpy as np
import pytest

from tests.graph_networks import built, regions
from toolchain.graph.regions import read_graph_region, region_calls, region_function
from toolchain.spec.errors import UserError


def test_a_region_is_read_back() -> None:
    first, second = regions()
    assert [tensor.name for tensor in first.inputs] == ["x"]
    assert {tensor.name: tensor.shape for tensor in first.outputs} == {"r": (2, 64), "l": (2, 4, 4, 4)}
    assert {name: array.shape for name, array in second.constants.items()} == {"m": (64, 5)}
    assert first.inputs[0].bytes == 4 * 2 * 3 * 8 * 8
    assert np.array_equal(first.constants["shape"], [2, 64])


def test_other_operators_are_refused() -> None:
    model = built().partitioned.clone()
    call = region_calls(model)[0]
    next(iter(region_function(model, call))).domain = "tilewright.integer"
    with pytest.raises(UserError, match=r"E1010 region 'region0' has a node 'conv' of tilewright\.integer"):
        read_graph_region(model, call)
