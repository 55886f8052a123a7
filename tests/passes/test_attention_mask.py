"""Masks of attention: which are recognised, and the same numbers once they are rows of their own."""

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper

from tests.graph.encoder import encoder
from tests.graph.imported import normal, run
from toolchain.graph.importing.load import load_graph
from toolchain.operations.library import builtin_kinds
from toolchain.passes.attention import FAMILIES, LayOutAttention, find_attention, replace_attention
from toolchain.passes.context import Context

KEYS = np.arange(16) < 11


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
        replace_attention(after, each, FAMILIES[0], builtin_kinds())
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
