"""Masks of attention: which are recognised, and the same numbers once they are rows of their own. Attention on sequences: what is recognised,
the same numbers, and one call for each half."""

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper

from tests.graph.encoder import encoder
from tests.graph.imported import normal, run
from toolchain.graph.importing.load import load_graph
from toolchain.graph.integers.functions import kind_of
from toolchain.operations.library import builtin_kinds
from toolchain.passes.attention import LayOutAttention, find_attention, replace_attention
from toolchain.passes.context import Context, Device
from toolchain.passes.fuse import Fuse, sources_of

KEYS = np.arange(16) < 11

BOTH = frozenset({"attention_probabilities", "attention_values", "linear", "gelu", "add"})


def masked(layers: int = 1, drops: float = -3.4028234663852886e38, everywhere: bool = True, order: tuple[int, int] = (0, 1)) -> onnx.ModelProto:
    """The encoder with a further input `mask` [1, 16]; everywhere: the constant beside it is true for every query."""
    given = encoder(layers)
    graph = given.graph
    spread = np.ones((1, 1, 16, 1), bool)
    spread[0, 0, 3] = everywhere
    arrays = {"axes": np.array([1, 2]), "queries": spread, "plain": np.float32(0), "drops": np.float32(drops)}
    graph.initializer.extend(numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items())
    graph.input.append(helper.make_tensor_value_info("mask", onnx.TensorProto.BOOL, [1, 16]))
    made = [
        helper.make_node("Unsqueeze", ["mask", "axes"], ["keys"], "keys"),
        helper.make_node("And", ["queries", "keys"], ["both"], "both"),
        helper.make_node("Where", ["both", "plain", "drops"], ["chosen"], "chosen"),
    ]
    nodes = list(graph.node)
    for number in range(layers):
        at = next(place for place, node in enumerate(nodes) if node.name == f"layer{number}.shares")
        pair = [nodes[at].input[0], "chosen"]
        nodes.insert(at, helper.make_node("Add", [pair[place] for place in order], [f"layer{number}.masked"], f"layer{number}.masked"))
        nodes[at + 1].input[0] = f"layer{number}.masked"
    del graph.node[:]
    graph.node.extend([*made, *nodes])
    return given


def loaded(model: onnx.ModelProto, folder: Path) -> ir.Model:
    onnx.save(model, folder / "masked.onnx")
    return load_graph(folder / "masked.onnx")


def softmaxes(model: ir.Model) -> list[ir.Node]:
    return [node for node in model.graph if node.op_type == "Softmax"]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_layers_share_one_row_and_compute_the_same(order: tuple[int, int], tmp_path: Path) -> None:
    before, after = (loaded(masked(2, order=order), tmp_path) for _ in range(2))
    x = {"x": normal(3, 1, 16, 32), "mask": KEYS[None]}
    LayOutAttention().run(after, Context())
    np.testing.assert_allclose(run(after, x)["y"], run(before, x)["y"], rtol=0, atol=1e-5)
    found = [find_attention(node) for node in softmaxes(after)]
    rows = {each.mask.row for each in found if each is not None and each.mask is not None}
    assert [row.shape for row in rows if row is not None] == [ir.Shape((1, 16))]
    for each in found:
        assert each is not None
        replace_attention(after, each, builtin_kinds())
    assert sum(node.op_type == "masked_attention_probabilities" for node in after.graph) == 2
    np.testing.assert_allclose(run(after, x)["y"], run(before, x)["y"], rtol=0, atol=1e-5)


def test_dropped_keys_have_no_share(tmp_path: Path) -> None:
    model = loaded(masked(), tmp_path)
    model.graph.outputs.append(softmaxes(model)[0].outputs[0])
    shares = run(model, {"x": normal(3, 1, 16, 32), "mask": KEYS[None]})["layer0.shares"]
    assert (shares[..., ~KEYS] == 0).all()
    assert (shares[..., KEYS] > 0).all()


@pytest.mark.parametrize("given", [masked(drops=-5), masked(everywhere=False)], ids=["a score of its own", "of the query too"])
def test_other_masks_are_none(given: onnx.ModelProto, tmp_path: Path) -> None:
    assert find_attention(softmaxes(loaded(given, tmp_path))[0]) is None


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
    replace_attention(after, laid, builtin_kinds())
    np.testing.assert_allclose(run(after, x)["y"], run(before, x)["y"], rtol=0, atol=1e-5)


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
