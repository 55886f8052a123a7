"""Masks of attention: which are recognised, and the same numbers once they are rows of their own.

Operands of an attention: heads that are repeated for their queries are found, and other repetitions are not.
"""

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper

from tests.graph.encoder import encoder
from tests.graph.imported import imported, normal, run
from tests.graph.onnx_builder import n
from toolchain.graph.importing.load import load_graph
from toolchain.operations.library import builtin_kinds
from toolchain.passes.attention import FAMILIES, find_attention, replace_attention
from toolchain.passes.attention_parts import Operand, split
from toolchain.passes.context import Context, Device
from toolchain.passes.fuse import Fuse
from toolchain.passes.lay_out_attention import LayOutAttention

KEYS = np.arange(16) < 11
LOWEST = float(np.finfo(np.float32).min)
"""As exporters write a mask."""


def masked(layers: int = 1, drops: float = LOWEST, seen: str = "all", order: tuple[int, int] = (0, 1)) -> onnx.ModelProto:
    """The encoder with a further input `mask` [1, 16]. seen: by the constant beside it, all keys or those up to the query."""
    given = encoder(layers)
    graph = given.graph
    spread = np.ones((1, 1, 16, 1), bool) if seen == "all" else np.tril(np.ones((1, 1, 16, 16), bool))
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


def causal(layers: int, shape: tuple[int, ...] = (1, 1, 16, 16), drops: float = -1e4) -> onnx.ModelProto:
    """The encoder with a constant before each softmax, which drops later keys."""
    given, later = encoder(layers), np.triu(np.full((16, 16), drops, np.float32), 1)
    nodes = list(given.graph.node)
    for number in range(layers):
        at = next(place for place, node in enumerate(nodes) if node.name == f"layer{number}.shares")
        given.graph.initializer.append(numpy_helper.from_array(np.broadcast_to(later, shape), f"later{number}"))
        nodes.insert(at, helper.make_node("Add", [nodes[at].input[0], f"later{number}"], [f"layer{number}.masked"], f"layer{number}.masked"))
        nodes[at + 1].input[0] = f"layer{number}.masked"
    del given.graph.node[:]
    given.graph.node.extend(nodes)
    return given


SPACED = frozenset({"spaced_attention_probabilities", "spaced_masked_attention_probabilities", "spaced_attention_values"})


def device(*computes: str, block: int = 1) -> Context:
    return Context(device=Device("machine", lambda _node: (), computes=frozenset(computes), block=block))


@pytest.mark.parametrize(
    "given",
    [masked(2, -65504.0, "before"), masked(2, LOWEST, "before"), causal(2), causal(2, (16, 16)), causal(2, drops=LOWEST)],
    ids=["computed", "computed, below halves", "constant", "constant of two axes", "constant, below halves"],
)
def test_a_row_for_each_query(given: onnx.ModelProto, tmp_path: Path) -> None:
    """Layers share the rows, and the numbers are the same in one call for each half."""
    before, after = (loaded(given, tmp_path) for _ in range(2))
    x = {"x": normal(3, 1, 16, 32), **({"mask": KEYS[None]} if len(given.graph.input) > 1 else {})}
    spaced = device(*SPACED, block=32)
    LayOutAttention().run(after, spaced)
    np.testing.assert_allclose(run(after, x)["y"], run(before, x)["y"], rtol=0, atol=1e-5)
    found = [find_attention(node) for node in softmaxes(after)]
    rows = {each.mask.row for each in found if each is not None and each.mask is not None}
    assert [row.shape for row in rows if row is not None] == [ir.Shape((1, 16, 16))]
    Fuse().run(after, spaced)
    assert sum(node.op_type == "spaced_masked_attention_probabilities" for node in after.graph) == 2
    np.testing.assert_allclose(run(after, x)["y"], run(before, x)["y"], rtol=0, atol=1e-5)


@pytest.mark.parametrize("given", [masked(seen="before"), causal(1)], ids=["computed", "constant"])
def test_a_machine_of_one_row_for_all_queries_takes_no_others(given: onnx.ModelProto, tmp_path: Path) -> None:
    model = loaded(given, tmp_path)
    names = [node.name for node in model.graph]
    LayOutAttention().run(model, device("attention_probabilities", "masked_attention_probabilities", "attention_values"))
    assert [node.name for node in model.graph] == names


@pytest.mark.parametrize(
    "given", [masked(drops=-5), causal(1, drops=-5), causal(1, (1, 2, 16, 16))], ids=["a score of its own", "a constant one", "one for each head"]
)
def test_other_masks_are_none(given: onnx.ModelProto, tmp_path: Path) -> None:
    assert find_attention(softmaxes(loaded(given, tmp_path))[0]) is None


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
