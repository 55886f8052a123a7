"""Heads of any number of channels become whole blocks: the same numbers, each stage held against the one before; other attention stays as it is."""

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from tests.graph.encoder import encoder
from tests.graph.imported import normal, run
from tests.passes.test_attention import loaded_from, softmax_of
from tests.passes.test_attention_parts import KEYS, masked
from toolchain.graph.equivalence import find_mismatch
from toolchain.graph.quantisation.ranges import Spread
from toolchain.graph.quantisation.table import LIKE, SeenTensor, Table, with_moved
from toolchain.graph.rewrite import known_shape
from toolchain.passes.attention import find_attention
from toolchain.passes.widen_heads import spaced, widen_heads


def widened(model: ir.Model, block: int) -> bool:
    found = find_attention(softmax_of(model))
    assert found is not None
    return widen_heads(model.graph, found, block)


@settings(max_examples=8)
@given(st.integers(1, 3), st.integers(3, 40), st.sampled_from([16, 32]))
def test_the_numbers_stay_the_same(tmp_path_factory: pytest.TempPathFactory, heads: int, inner: int, block: int) -> None:
    width, folder = heads * inner, tmp_path_factory.mktemp("wide")
    before, after = (loaded_from(encoder(width=width, heads=heads, rows=5, seed=inner), folder) for _ in range(2))
    x = {"x": normal(3, 1, 5, width)}
    assert widened(after, block) == (inner % block > 0)
    np.testing.assert_allclose(run(after, x)["y"], run(before, x)["y"], rtol=0, atol=2e-5)
    assert find_mismatch(before, after, {}) is None
    found = find_attention(softmax_of(after))
    assert found is not None, "its factor is that of the wider heads"
    assert {known_shape(value) for value in (found.queries, found.keys, found.values)} == {(1, 5, heads * -(-inner // block) * block)}


def test_heads_behind_a_mask(tmp_path: Path) -> None:
    before, after = (loaded_from(masked(), tmp_path) for _ in range(2))
    assert widened(after, 32)
    x = {"x": normal(3, 1, 16, 32), "mask": KEYS[None]}
    np.testing.assert_allclose(run(after, x)["y"], run(before, x)["y"], rtol=0, atol=1e-5)
    assert find_mismatch(before, after, {}) is None


@pytest.mark.parametrize("part", ["queries", "keys", "scores"])
def test_the_factor_may_stand_anywhere(part: str, tmp_path: Path) -> None:
    """A factor of queries or keys, by heads, in place of one of the scores; a product in place of a quotient."""
    model = encoder(width=48)
    nodes = {node.name: node for node in model.graph.node}
    if part == "scores":
        nodes["layer0.scaled"].op_type = "Mul"
    else:
        name = {"queries": "layer0.q", "keys": "layer0.k"}[part]
        nodes["layer0.shares"].input[0] = "layer0.scores"
        model.graph.node.remove(nodes["layer0.scaled"])
        made = helper.make_node("Mul", [name, "root"], [f"{name}.by"], f"{name}.by")
        scores = nodes["layer0.scores"]
        scores.input[:] = [f"{name}.by" if each == name else each for each in scores.input]
        model.graph.node.insert(list(model.graph.node).index(scores), made)
    next(each for each in model.graph.initializer if each.name == "root").CopyFrom(onnx.numpy_helper.from_array(np.float32(24**-0.5), "root"))
    before, after = (loaded_from(model, tmp_path) for _ in range(2))
    assert widened(after, 32)
    x = {"x": normal(3, 1, 16, 48)}
    np.testing.assert_allclose(run(after, x)["y"], run(before, x)["y"], rtol=0, atol=1e-5)
    assert find_mismatch(before, after, {}) is None


@pytest.mark.parametrize("change", ["whole blocks", "another reader", "computed weights", "no layer behind"])
def test_other_attention_stays_as_it_is(change: str, tmp_path: Path) -> None:
    model = encoder(width=64 if change == "whole blocks" else 48)
    nodes = {node.name: node for node in model.graph.node}
    if change == "another reader":
        model.graph.output.append(helper.make_tensor_value_info("layer0.values", 1, [1, 16, 48]))
    elif change == "computed weights":
        model.graph.node.insert(0, helper.make_node("Abs", ["layer0.keys.weights"], ["made"], "made"))
        nodes["layer0.keys.product"].input[1] = "made"
        given = next(each for each in model.graph.initializer if each.name == "layer0.keys.weights")
        model.graph.initializer.remove(given)
        model.graph.input.append(helper.make_tensor_value_info(given.name, 1, [48, 48]))
    elif change == "no layer behind":
        nodes["layer0.out"].input[0] = "layer0.context"
        model.graph.node.remove(nodes["layer0.out.product"])
    loaded = loaded_from(model, tmp_path)
    names = [(node.name, [value.name for value in node.outputs]) for node in loaded.graph]
    assert not widened(loaded, 32)
    assert [(node.name, [value.name for value in node.outputs]) for node in loaded.graph] == names


def test_ranges_of_wider_tensors_are_those_of_the_narrow_ones(tmp_path: Path) -> None:
    model = loaded_from(encoder(width=24), tmp_path)
    assert widened(model, 16)
    made = {value.name: value for node in model.graph for value in node.outputs if LIKE in value.metadata_props}
    seen = SeenTensor(Spread(2.0, ((512, 1_000_000),), -1.0, 2.0), ())
    found = with_moved(model.graph, Table(1, {"layer0.queries": seen, "layer0.values": seen})).tensors
    assert found["layer0.values.wide"].spread == seen.spread
    assert found["layer0.queries.wide"].spread.maximum == pytest.approx(2.0 * (16 / 12) ** 0.5, rel=1e-3)
    assert {"layer0.queries.wide", "layer0.scores.wide", "layer0.context.wide"} <= {*made}
    unusable = with_moved(model.graph, Table(1, {}, ("layer0.queries",))).unusable
    assert "layer0.queries.wide" in unusable


def test_zeros_stand_behind_each_head() -> None:
    found = spaced(np.arange(1, 13).reshape(2, 6), 1, 2, 4)
    assert found.tolist() == [[1, 2, 3, 0, 4, 5, 6, 0], [7, 8, 9, 0, 10, 11, 12, 0]]
