"""Rotary positions on sequences: the same numbers, one call for each, and attention found behind them."""

from pathlib import Path

import numpy as np
import pytest

from tests.graph.imported import normal, run
from tests.graph.importing.test_fused_layers import network, vendor
from tests.graph.llama import Shape, llama
from tests.graph.onnx_builder import n
from tests.passes.test_attention import SPACED, device, softmax_of
from tests.passes.test_rotary import SHAPES, found_in, loaded
from toolchain.graph.importing.foreign_operators import VENDOR
from toolchain.graph.integers.functions import kind_of
from toolchain.passes.attention import find_attention
from toolchain.passes.context import Context, Device
from toolchain.passes.fuse import Fuse, sources_of
from toolchain.passes.lay_out_attention import LayOutAttention
from toolchain.passes.lay_out_rotary import on_sequence
from toolchain.passes.simplify import RemoveDead

ALL = Context(device=Device("machine", lambda _node: (), computes=SPACED | {"rotary"}, block=32))


def feeds(shape: Shape) -> dict[str, np.ndarray]:
    return {"x": normal(3, 1, shape.rows, shape.width)} | ({"positions": np.arange(3, 3 + shape.rows)[None]} if shape.computed else {})


@pytest.mark.parametrize("name", SHAPES)
def test_both_forms_compute_the_same(name: str, tmp_path: Path) -> None:
    shape = SHAPES[name]
    before, after = (loaded(llama(shape), tmp_path) for _ in range(2))
    wanted = run(before, feeds(shape))["y"]
    LayOutAttention().run(after, ALL)
    np.testing.assert_allclose(run(after, feeds(shape))["y"], wanted, rtol=0, atol=1e-5)
    assert all(on_sequence(each) for each in found_in(after))
    found = find_attention(softmax_of(after))
    assert found is not None
    assert (found.heads, found.share) == (4, 2)
    RemoveDead().run(after, ALL)
    Fuse().run(after, ALL)
    calls = [node for node in after.graph if kind_of(node) == "rotary"]
    assert [(node.attributes["heads"].as_int(), node.attributes["interleaved"].as_int()) for node in calls] == [
        (4, int(shape.interleaved)),
        (2, int(shape.interleaved)),
    ]
    assert any(each.endswith(".low") for each in sources_of(calls[0]))
    np.testing.assert_allclose(run(after, feeds(shape))["y"], wanted, rtol=0, atol=1e-5)
    assert not any(node.op_type in ("Sub", "Neg") for node in after.graph)


def test_layers_share_their_tables(tmp_path: Path) -> None:
    model = loaded(llama(Shape(layers=3)), tmp_path)
    LayOutAttention().run(model, ALL)
    RemoveDead().run(model, ALL)
    Fuse().run(model, ALL)
    calls = [node for node in model.graph if kind_of(node) == "rotary"]
    assert len(calls) == 6
    assert len({node.inputs[1] for node in calls}) == len({node.inputs[2] for node in calls}) == 1


def test_each_layers_own_rows_of_a_table_are_made_once(tmp_path: Path) -> None:
    angles, given = normal(1, 9, 8), {"x": normal(0, 1, 4, 32), "places": np.array([[0, 1, 2, 3]])}
    nodes = [n("RotaryEmbedding", [name, "places", "cos", "sin"], [made], made, domain=VENDOR) for name, made in (("x", "t"), ("t", "y"))]
    proto = network(nodes, given, {"cos": np.cos(angles), "sin": np.sin(angles)})
    model = loaded(proto, tmp_path)
    for step in (LayOutAttention(), RemoveDead(), Fuse()):
        step.run(model, ALL)
    assert [kind_of(node) or node.op_type for node in model.graph] == ["Gather", "Gather", "rotary", "rotary"]
    np.testing.assert_allclose(run(model, given)["y"], run(proto, given)["y"], rtol=0, atol=1e-6)


@pytest.mark.parametrize("interleaved", [False, True])
def test_one_operator_on_a_sequence_is_one_call(interleaved: bool, tmp_path: Path) -> None:
    angles, given = normal(1, 9, 8), {"x": normal(0, 2, 4, 32), "places": np.array([[0, 1, 2, 3], [5, 6, 7, 8]])}
    node = vendor("RotaryEmbedding", ["x", "places", "cos", "sin"], interleaved=int(interleaved))
    proto = network([node], given, {"cos": np.cos(angles), "sin": np.sin(angles)})
    model = loaded(proto, tmp_path)
    LayOutAttention().run(model, ALL)
    RemoveDead().run(model, ALL)
    Fuse().run(model, ALL)
    assert [kind_of(node) or node.op_type for node in model.graph] == ["Gather", "Gather", "rotary"]
    np.testing.assert_allclose(run(model, given)["y"], run(proto, given)["y"], rtol=0, atol=1e-6)


@pytest.mark.parametrize("turned_first", [False, True])
def test_a_sequence_that_is_made_again_of_the_heads_is_that_of_the_call(turned_first: bool, tmp_path: Path) -> None:
    """As a cache of keys takes it: before rows or by heads, with tables that are constant."""
    angles, given = normal(1, 4, 8), {"x": normal(0, 1, 4, 32)}
    places = np.arange(4)[None]
    turn = vendor("RotaryEmbedding", ["h" if turned_first else "x", "places", "cos", "sin"], ["t" if turned_first else "z"])
    split = [n("Reshape", ["x", "apart"], ["a"], "a"), n("Transpose", ["a"], ["h"], "h", perm=(0, 2, 1, 3))]
    back = [n("Transpose", ["t"], ["b"], "b", perm=(0, 2, 1, 3)), n("Reshape", ["b", "joined"], ["z"], "z")]
    nodes = [*split, turn, *back] if turned_first else [turn]
    sizes = {"apart": np.array([0, 0, 2, 16]), "joined": np.array([0, 0, 32])} if turned_first else {}
    tables = {"places": places, "cos": np.cos(angles), "sin": np.sin(angles)}
    proto = network([*nodes, n("MatMul", ["z", "w"], ["y"], "y")], given, tables | sizes | {"w": normal(2, 32, 32)})
    model = loaded(proto, tmp_path)
    for step in (LayOutAttention(), RemoveDead(), Fuse()):
        step.run(model, ALL)
    assert [kind_of(node) or node.op_type for node in model.graph] == ["Reshape", "Reshape", "rotary", "linear"]  # the tables
    np.testing.assert_allclose(run(model, given)["y"], run(proto, given)["y"], rtol=1e-5, atol=1e-5)


def test_calibration_for_all_machines_sees_the_tensors_of_one_that_leaves_it(tmp_path: Path) -> None:
    everywhere, alone = (loaded(llama(), tmp_path) for _ in range(2))
    LayOutAttention().run(everywhere, Context())
    LayOutAttention().run(alone, device(SPACED))
    assert {value.name for node in alone.graph for value in node.outputs} <= {value.name for node in everywhere.graph for value in node.outputs}


def test_a_machine_without_it_leaves_it_as_it_is(tmp_path: Path) -> None:
    model = loaded(llama(), tmp_path)
    names = [node.name for node in model.graph]
    LayOutAttention().run(model, device(SPACED))
    assert [node.name for node in model.graph] == names
    assert find_attention(softmax_of(model)) is None


def test_a_prompt_as_one_operator_becomes_the_calls_of_an_attention(tmp_path: Path) -> None:
    """com.microsoft's GroupQueryAttention with rotary positions, between products."""
    given, angles = {"x": normal(0, 1, 6, 64)}, normal(3, 9, 16)
    counts = {"lens": np.array([5], np.int32), "total": np.array(6, np.int32), "cos": np.cos(angles), "sin": np.sin(angles)}
    weights = {"wq": normal(4, 64, 128), "wk": normal(5, 64, 64), "wv": normal(6, 64, 64)}
    products = [n("MatMul", ["x", f"w{word}"], [word], word) for word in "qkv"]
    node = vendor("GroupQueryAttention", [*"qkv", "", "", "lens", "total", "cos", "sin"], num_heads=4, kv_num_heads=2, do_rotary=1)
    proto = network([*products, node], given, counts | weights)
    model = loaded(proto, tmp_path)
    for step in (LayOutAttention(), RemoveDead(), Fuse()):
        step.run(model, ALL)
    kinds = [kind_of(each) for each in model.graph if kind_of(each)]
    assert sorted(kinds) == ["linear"] * 3 + ["rotary"] * 2 + ["spaced_attention_values", "spaced_masked_attention_probabilities"]
    np.testing.assert_allclose(run(model, given)["y"], run(proto, given)["y"], rtol=1e-4, atol=1e-4)
