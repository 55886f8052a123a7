"""Attention on sequences: what is recognised, the same numbers, and one call for each half. Heads of any number of channels become whole blocks: the
same numbers, each stage held against the one before; other attention stays as it is."""

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
from tests.passes.test_attention_parts import KEYS, masked
from toolchain.graph.equivalence import find_mismatch
from toolchain.graph.importing.load import load_graph
from toolchain.graph.integers.functions import kind_of
from toolchain.graph.quantisation.ranges import Spread
from toolchain.graph.quantisation.table import LIKE, SeenTensor, Table, with_moved
from toolchain.graph.rewrite import add_constant, known_shape
from toolchain.operations.library import builtin_kinds
from toolchain.passes.attention import FAMILIES, find_attention, replace_attention, spaced, widen_heads
from toolchain.passes.context import Context, Device
from toolchain.passes.fuse import Fuse, sources_of
from toolchain.passes.lay_out_attention import LayOutAttention

BOTH = frozenset({"attention_probabilities", "attention_values", "linear", "gelu", "add"})


def loaded_from(model: onnx.ModelProto, folder: Path) -> ir.Model:
    onnx.save(model, folder / "encoder.onnx")
    return load_graph(folder / "encoder.onnx")


def softmax_of(model: ir.Model) -> ir.Node:
    return next(node for node in model.graph if node.op_type == "Softmax")


def device(computes: frozenset[str]) -> Context:
    return Context(device=Device("machine", lambda _node: (), computes=computes))


def test_the_parts_of_an_attention(tmp_path: Path) -> None:
    found = find_attention(softmax_of(loaded_from(encoder(), tmp_path)))
    assert found is not None
    assert [value.name for value in (found.queries, found.keys, found.values)] == ["layer0.queries", "layer0.keys", "layer0.values"]
    assert (found.heads, found.laid_out) == (2, False)


def test_both_forms_compute_the_same(tmp_path: Path) -> None:
    before, after, x = loaded_from(encoder(layers=2), tmp_path), loaded_from(encoder(layers=2), tmp_path), {"x": normal(3, 1, 16, 32)}
    LayOutAttention().run(after, Context())
    np.testing.assert_allclose(run(after, x)["y"], run(before, x)["y"], rtol=0, atol=1e-5)
    laid = find_attention(softmax_of(after))
    assert laid is not None
    assert (laid.laid_out, laid.shares.shape) == (True, ir.Shape((1, 16, 32)))
    replace_attention(after, laid, FAMILIES[0], builtin_kinds())
    np.testing.assert_allclose(run(after, x)["y"], run(before, x)["y"], rtol=0, atol=1e-5)


SPACED = frozenset({"spaced_attention_probabilities", "spaced_masked_attention_probabilities", "spaced_attention_values", "linear", "gelu", "add"})
BLOCKS = Context(device=Device("machine", lambda _node: (), computes=SPACED, block=32))


@pytest.mark.parametrize("order", [None, (0, 1)], ids=["plain", "masked"])
def test_zeros_fill_up_the_last_block_of_a_head(order: tuple[int, int] | None, tmp_path: Path) -> None:
    given, x = encoder() if order is None else masked(order=order), {"x": normal(3, 1, 16, 32)} | ({} if order is None else {"mask": KEYS[None]})
    before, after = (loaded_from(given, tmp_path) for _ in range(2))
    LayOutAttention().run(after, BLOCKS)
    np.testing.assert_allclose(run(after, x)["y"], run(before, x)["y"], rtol=0, atol=1e-5)
    found = find_attention(softmax_of(after))
    assert found is not None
    assert (found.laid_out, found.spare, found.shares.shape) == (True, 16, ir.Shape((1, 16, 64)))
    assert [family.spaced for family in FAMILIES if found.fits(family)] == [True]
    Fuse().run(after, BLOCKS)
    calls = {kind_of(node): node for node in after.graph if "attention" in kind_of(node)}
    assert set(calls) == {"spaced_attention_values", "spaced_attention_probabilities" if order is None else "spaced_masked_attention_probabilities"}
    assert {node.attributes["spare"].as_int() for node in calls.values()} == {16}
    np.testing.assert_allclose(run(after, x)["y"], run(before, x)["y"], rtol=0, atol=1e-5)


@pytest.mark.parametrize(("name", "array"), [("pads", [0] * 6 + [1, 15]), ("pads", [0] * 7 + [-1]), ("cut.first", [1]), ("cut.axis", [2])])
def test_other_zeros_are_none(name: str, array: list[int], tmp_path: Path) -> None:
    model = loaded_from(encoder(), tmp_path)
    LayOutAttention().run(model, BLOCKS)
    node = next(node for node in model.graph if node.op_type == ("Pad" if name == "pads" else "Slice"))
    place = 1 if name == "pads" else ("", "cut.first", "cut.stop", "cut.axis").index(name)
    node.replace_input_with(place, add_constant(model.graph, "changed", np.array(array, np.int64)))
    assert find_attention(softmax_of(model)) is None


def test_each_half_becomes_a_call_with_its_own_nodes(tmp_path: Path) -> None:
    model = loaded_from(encoder(), tmp_path)
    for step in (LayOutAttention(), Fuse()):
        model = step.run(model, device(BOTH))
    calls = {kind_of(node): sources_of(node) for node in model.graph if kind_of(node).startswith("attention")}
    assert set(calls) == {"attention_probabilities", "attention_values"}
    assert {"layer0.shares", "layer0.scores", "layer0.q", "layer0.k"} <= set(calls["attention_probabilities"])
    assert {"layer0.sums", "layer0.v", "layer0.context"} <= set(calls["attention_values"])
    assert not set(calls["attention_probabilities"]) & set(calls["attention_values"])


def test_a_machine_without_both_halves_leaves_it_as_it_is(tmp_path: Path) -> None:
    model = loaded_from(encoder(), tmp_path)
    names = [node.name for node in model.graph]
    LayOutAttention().run(model, device(BOTH - {"attention_values"}))
    assert [node.name for node in model.graph] == names


@pytest.mark.parametrize("change", ["factor", "second reader", "order", "axis", "keys of one batch"])
def test_other_softmaxes_are_none(change: str, tmp_path: Path) -> None:
    given = encoder(factor=1.001 if change == "factor" else 1.0)
    nodes = {node.name: node for node in given.graph.node}
    if change == "second reader":
        given.graph.output.append(onnx.helper.make_tensor_value_info("layer0.shares", 1, [1, 2, 16, 16]))
    elif change == "order":
        nodes["layer0.v"].attribute[0].ints[:] = [0, 2, 3, 1]
        nodes["layer0.sums"].input[:] = ["layer0.shares", "layer0.v"]
    elif change == "keys of one batch":
        given.graph.input[0].type.tensor_type.shape.dim[0].dim_value = given.graph.output[0].type.tensor_type.shape.dim[0].dim_value = 2
        first = onnx.helper.make_node("Gather", ["x", "zero"], ["one"], "one", axis=0)
        given.graph.initializer.append(onnx.numpy_helper.from_array(np.array([0]), "zero"))
        given.graph.node.insert(0, first)
        for name in ("layer0.keys.product", "layer0.values.product"):
            nodes[name].input[0] = "one"
    elif change == "axis":
        nodes["layer0.shares"].attribute[0].i = 2
    assert find_attention(softmax_of(loaded_from(given, tmp_path))) is None


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
