"""Attention on sequences: what is recognised, the same numbers, and one call for each half."""

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from tests.graph.encoder import encoder
from tests.graph.imported import normal, run
from tests.passes.test_attention_parts import KEYS, masked
from toolchain.graph.importing.load import load_graph
from toolchain.graph.integers.functions import kind_of
from toolchain.graph.rewrite import add_constant
from toolchain.operations.library import builtin_kinds
from toolchain.passes.attention import FAMILIES, find_attention, replace_attention
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
