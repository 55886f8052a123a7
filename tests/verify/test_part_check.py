"""Groups as programs of their own give what their operations mean, and a wrong one is told."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedule.made_regions import Builder, expected
from tests.schedule.search.made_graphs import space_on
from toolchain.operations.operation import Operation
from toolchain.schedule.search.templates import find_embeddings, fusion_graph, load_templates
from toolchain.spec.arrays import Array
from toolchain.spec.errors import UserError
from toolchain.spec.model.quantisation import Numerics
from toolchain.verify.part_check import check_groups, region_values


@pytest.mark.parametrize("name", ["vta", "dpuv3"])
def test_every_embedding_of_a_block_is_exact(name: str) -> None:
    space = space_on(name)
    groups = [each.members for each in find_embeddings(load_templates(space.machine), fusion_graph(space.region))]
    assert 0 < check_groups(space, groups) <= len(groups)


def test_a_group_that_is_wrong_is_told_with_its_first_element(monkeypatch: pytest.MonkeyPatch) -> None:
    space, honest = space_on("vta"), Operation.run

    def biased(self: Operation, operands: dict[str, Array], numerics: Numerics) -> Array:
        found = honest(self, operands, numerics).copy()
        if self.name == "three":
            found[0, 3, 2, 1] ^= 1
        return found

    monkeypatch.setattr(Operation, "run", biased)
    with pytest.raises(UserError, match=r"E1305 'narrow3', 'three' as a group make -?\d+ at \[0, 3, 2, 1\] of 'b', not"):
        check_groups(space, [(2, 3)])


@settings(max_examples=30)
@given(st.integers(0, 1 << 20), st.integers(1, 8))
def test_values_are_those_of_the_tests_own_reference(seed: int, steps: int) -> None:
    region = Builder(np.random.default_rng(seed), {"conv2d", "add", "max_pool"}).region(steps)
    rng = np.random.default_rng(seed)
    inputs = {name: rng.integers(-128, 128, tuple(region.tensors[name]), np.int8) for name in region.inputs}
    found, wanted = region_values(region, inputs, Numerics()), expected(region, inputs, Numerics())
    assert all(np.array_equal(values, wanted[name]) for name, values in found.items())
    assert {bound.tensors["y"] for bound in region.operations} <= found.keys()
    assert replace(region, operations=()).operations == ()
