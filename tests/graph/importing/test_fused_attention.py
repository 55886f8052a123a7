"""Fused attention gives the same numbers written out; so does GroupQueryAttention as ONNX Runtime's own kernel: prompts, and rows behind a cache."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from tests.graph.imported import normal, run
from tests.graph.importing.test_fused_layers import HEADS, ROWS, WIDTH, check, network, stays, vendor
from tests.graph.onnx_builder import n
from toolchain.graph.importing.fused_layers import write_layers
from toolchain.graph.importing.load import load_graph
from toolchain.passes.attention import find_attention
from toolchain.passes.rotary import find_rotary

MASK = np.array([[1] * 4 + [0] * 2, [1] * 6], np.int32)


@settings(max_examples=20, deadline=None)
@given(st.booleans(), st.booleans(), st.booleans(), st.sampled_from([0.0, 0.3]), st.booleans())
def test_attention_with_packed_weights(bias: bool, masked: bool, causal: bool, scale: float, moved: bool) -> None:
    inputs = {"x": normal(0, 2, ROWS, WIDTH)} | ({"mask": MASK} if masked else {}) | ({"scores": normal(4, 2, HEADS, ROWS, ROWS)} if moved else {})
    constants = {"w": normal(1, WIDTH, 3 * WIDTH)} | ({"b": normal(2, 3 * WIDTH)} if bias else {})
    operands = ["x", "w", "b" if bias else "", "mask" if masked else "", "", "scores" if moved else ""]
    more: dict[str, Any] = {"scale": scale} if scale else {}
    check([vendor("Attention", operands, num_heads=HEADS, unidirectional=int(causal), **more)], inputs, constants)


@settings(max_examples=12, deadline=None)
@given(st.booleans(), st.booleans(), st.sampled_from([ROWS, 4]))
def test_attention_of_queries_keys_and_values(bias: bool, masked: bool, keys: int) -> None:
    inputs = {"q": normal(0, 2, ROWS, WIDTH), "k": normal(1, 2, keys, WIDTH), "v": normal(2, 2, keys, WIDTH)}
    inputs |= {"mask": MASK[:, :keys]} if masked else {}
    operands = ["q", "k", "v", "b" if bias else "", "mask" if masked else ""]
    check([vendor("MultiHeadAttention", operands, num_heads=HEADS)], inputs, {"b": normal(3, 3 * WIDTH)} if bias else {})


@settings(max_examples=16, deadline=None)
@given(st.booleans(), st.booleans(), st.sampled_from(["", "truth", "scores"]), st.sampled_from([0.0, 0.3]))
def test_the_standards_attention(by_heads: bool, causal: bool, mask: str, scale: float) -> None:
    shape = (2, HEADS, ROWS, WIDTH // HEADS) if by_heads else (2, ROWS, WIDTH)
    inputs = {name: normal(k, *shape) for k, name in enumerate("qkv")}
    if mask:
        inputs["mask"] = np.tril(np.ones((ROWS, ROWS), bool)) if mask == "truth" else normal(5, ROWS, ROWS)
    more: dict[str, Any] = ({} if by_heads else {"q_num_heads": HEADS, "kv_num_heads": HEADS}) | ({"scale": scale} if scale else {})
    check([n("Attention", [*"qkv", *(["mask"] if mask else [])], ["y"], "a", is_causal=int(causal), **more)], inputs, {}, 23)


@pytest.mark.parametrize("by_heads", [False, True])
@pytest.mark.parametrize("shared", [1, 2, 4])
def test_several_queries_to_a_key(shared: int, by_heads: bool) -> None:
    heads, inner, keys = 4, 8, 5
    sizes = {"q": (ROWS, heads), "k": (keys, shared), "v": (keys, shared)}
    inputs = {name: normal(k, 2, *((h, m, inner) if by_heads else (m, h * inner))) for k, (name, (m, h)) in enumerate(sizes.items())}
    more: dict[str, Any] = {} if by_heads else {"q_num_heads": heads, "kv_num_heads": shared}
    check([n("Attention", list("qkv"), ["y"], "a", is_causal=1, **more)], inputs, {}, 23)


def test_keys_that_queries_cannot_share_stay() -> None:
    heads = {name: normal(k, 1, 3 if name == "q" else 2, ROWS, 8) for k, name in enumerate("qkv")}
    with_cap = {name: normal(k, 1, 2, ROWS, 8) for k, name in enumerate("qkv")}
    stays([n("Attention", list("qkv"), ["y"], "a")], heads, {}, 23)
    stays([n("Attention", list("qkv"), ["y"], "a", softcap=2.0)], with_cap, {}, 23)


Array = np.ndarray
QUERY_HEADS, SHARED, LONGEST = 4, 2, 32
OPERANDS = ["q", "k", "v", "past_k", "past_v", "lens", "total", "cos", "sin"]


@dataclass(frozen=True)
class Layer:
    """rows: of queries. past: of the caches, None for a prompt alone. total: keys, as the operand says. last: the place of the last key of each
    sample. pairs: that tables turn, 0 for no rotary positions."""

    rows: int = ROWS
    past: int | None = None
    total: int = ROWS
    last: tuple[int, ...] = (ROWS - 1, ROWS - 1)
    pairs: int = 8
    interleaved: bool = False
    packed: bool = False
    scale: float = 0.0
    rest: float = 0.0
    inner: int = 16

    @property
    def batch(self) -> int:
        return len(self.last)

    @property
    def sequences(self) -> dict[str, Array]:
        sizes = {"q": QUERY_HEADS, "k": SHARED, "v": SHARED}
        found = {name: normal(k, self.batch, self.rows, heads * self.inner) for k, (name, heads) in enumerate(sizes.items())}
        return {"q": np.concatenate([*found.values()], -1)} if self.packed else found

    @property
    def caches(self) -> dict[str, Array]:
        """`rest` times made-up numbers stand behind the rows that count."""
        found = (
            {name: normal(k, self.batch, SHARED, self.past or 0, self.inner) for k, name in enumerate(("past_k", "past_v"), 5)} if self.past else {}
        )
        for cache in found.values():
            for sample, last in enumerate(self.last):
                cache[sample, :, last + 1 - self.rows :] *= self.rest
        return found

    @property
    def constants(self) -> dict[str, Array]:
        angles = normal(3, LONGEST, self.pairs) if self.pairs else np.zeros((0, 0), np.float32)
        return {"total": np.array(self.total, np.int32), **({"cos": np.cos(angles), "sin": np.sin(angles)} if self.pairs else {})}

    @property
    def lens(self) -> dict[str, Array]:
        return {"lens": np.array(self.last, np.int32)}

    def node(self, given: Collection[str], **more: Any) -> onnx.NodeProto:
        operands = [name if name in given else "" for name in OPERANDS]
        attributes = {"scale": self.scale} if self.scale else {}
        made = vendor("GroupQueryAttention", operands, ["y", "y1", "y2"], num_heads=QUERY_HEADS, kv_num_heads=SHARED, **attributes, **more)
        made.attribute.extend(
            [helper.make_attribute("do_rotary", int(self.pairs > 0)), helper.make_attribute("rotary_interleaved", int(self.interleaved))]
        )
        return made


def both(layer: Layer, known: bool = False, **more: Any) -> tuple[dict[str, Array], dict[str, Array], onnx.ModelProto]:
    """Results of ONNX Runtime's kernel, those of the layer written out, and that. known: whether the places of the last keys are constants."""
    inputs, constants = layer.sequences | layer.caches, layer.constants
    (constants if known else inputs).update(layer.lens)
    proto = network([layer.node(inputs | constants, **more)], inputs, constants)
    wanted = run(proto, inputs)
    write_layers(proto)
    assert not any(node.domain for node in proto.graph.node)
    return wanted, run(proto, inputs), proto


def equal(wanted: Mapping[str, Array], found: Mapping[str, Array]) -> None:
    for name, array in found.items():
        np.testing.assert_allclose(array, wanted[name], rtol=1e-4, atol=1e-5)


@settings(max_examples=16, deadline=None)
@given(st.sampled_from([0, 8]), st.sampled_from([16, 32]), st.booleans(), st.booleans(), st.sampled_from([0.0, 0.3]))
def test_a_prompt(pairs: int, inner: int, interleaved: bool, packed: bool, scale: float) -> None:
    """Of heads of 32 channels tables turn the first half."""
    wanted, found, _ = both(Layer(pairs=pairs, inner=inner, interleaved=interleaved, packed=packed, scale=scale), known=True)
    equal(wanted, found)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_rows_behind_a_cache(data: st.DataObject) -> None:
    """One step or several, in a buffer of any length or behind rows that all count, whatever the place of the last key."""
    rows, past = data.draw(st.sampled_from([1, 1, 3])), data.draw(st.integers(2, 9))
    batch = data.draw(st.sampled_from([1, 2])) if rows == 1 else 1
    total = data.draw(st.one_of(st.just(past + rows), st.integers(rows + 1, past) if past > rows else st.nothing()))
    last = tuple(data.draw(st.integers(rows - 1, total - 1)) for _ in range(batch))
    layer = Layer(rows, past, total, last, data.draw(st.sampled_from([0, 8])), data.draw(st.booleans()), data.draw(st.booleans()))
    wanted, found, _ = both(layer, known=data.draw(st.booleans()))
    kept = {
        name: array if name == "y" else np.concatenate([array[k, :, : end + 1].ravel() for k, end in enumerate(last)])
        for name, array in found.items()
    }
    there = {
        name: array if name == "y" else np.concatenate([array[k, :, : end + 1].ravel() for k, end in enumerate(last)])
        for name, array in wanted.items()
    }
    equal(there, kept)


def test_rows_behind_the_last_stay_and_count_for_nothing() -> None:
    layer = Layer(1, 8, 8, (3,), rest=50.0)
    wanted, found, _ = both(layer)
    np.testing.assert_allclose(found["y"], wanted["y"], rtol=1e-4, atol=1e-5)
    for name, past in zip(("y1", "y2"), layer.caches.values(), strict=True):
        assert np.array_equal(found[name][:, :, 4:], past[:, :, 4:])
        assert past[:, :, 4:].any()


@pytest.mark.parametrize(
    ("layer", "kind"),
    [(Layer(1, 8, 8, (3,)), "Where"), (Layer(1, 8, 9, (8,)), "Concat"), (Layer(3, 8, 8, (5,)), "GatherND")],
    ids=["one", "behind", "several"],
)
def test_the_cache_is_told_by_the_plainest_operator(layer: Layer, kind: str) -> None:
    _, _, proto = both(layer, known=kind == "Concat")
    assert [node.op_type for node in proto.graph.node if node.output[0] in ("y/k.next", "y/v.next")] == [kind] * 2


def test_layers_share_what_places_are_made_of(tmp_path: Any) -> None:
    """Two layers, of which sizes tell the number of keys only once the file's open dimensions have theirs."""
    layer = Layer(1, 8, 8, (3,))
    inputs, constants = layer.sequences | layer.caches | {"mask": np.array([[1] * 4 + [0] * 4], np.int64)}, layer.constants
    del constants["total"]
    nodes = [
        helper.make_node("ReduceSum", ["mask", "axis"], ["count"], keepdims=0),
        helper.make_node("Sub", ["count", "one"], ["last"]),
        helper.make_node("Cast", ["last"], ["lens"], to=onnx.TensorProto.INT32),
        helper.make_node("Shape", ["mask"], ["keys"], start=1, end=2),
        helper.make_node("Cast", ["keys"], ["total"], to=onnx.TensorProto.INT32),
    ]
    first, second = (layer.node({*inputs, *constants, "lens", "total"}) for _ in range(2))
    first.output[:], second.input[0], second.name = ["x", "x1", "x2"], "x", "second"
    proto = network([*nodes, first, second], inputs, constants | {"axis": np.array([1]), "one": np.array([1])})
    wanted = run(proto, inputs)
    for entry in proto.graph.input:
        if entry.name == "mask":
            entry.type.tensor_type.shape.dim[1].dim_param = "keys"
    onnx.save(proto, tmp_path / "two.onnx")
    model = load_graph(tmp_path / "two.onnx", {"keys": 8})
    equal({name: wanted[name] for name in ("y", "y1", "y2")}, run(model, inputs))
    kinds = [node.op_type for node in model.graph]
    assert (kinds.count("LessOrEqual"), kinds.count("Equal"), kinds.count("Gather")) == (1, 1, 2)
    assert [(part.heads, part.share, part.mask is not None) for node in model.graph if (part := find_attention(node))] == [(4, 2, True)] * 2
    assert sum(find_rotary(node) is not None for node in model.graph) == 4


REFUSED = {
    "softcap is 2": {"softcap": 2.0},
    "local_window_size is 2": {"local_window_size": 2},
    "smooth_softmax is 1": {"smooth_softmax": 1},
}


@pytest.mark.parametrize("words", REFUSED)
def test_scores_of_another_kind_stay_with_the_reason(words: str) -> None:
    layer = Layer(1, 8, 8, (3,))
    inputs = layer.sequences | layer.caches | layer.lens
    assert words in stays([layer.node(inputs | layer.constants, **REFUSED[words])], inputs, layer.constants)


@pytest.mark.parametrize(
    ("layer", "known", "words"),
    [
        (Layer(last=(3, ROWS - 1)), True, "some rows may not count"),
        (Layer(), False, "some rows may not count"),
        (Layer(3, 8, 3, (2,)), True, "beside caches"),
    ],
)
def test_prompts_that_no_rule_says_stay(layer: Layer, known: bool, words: str) -> None:
    inputs, constants = layer.sequences | layer.caches, layer.constants
    (constants if known else inputs).update(layer.lens)
    assert words in stays([layer.node(inputs | constants)], inputs, constants)


def test_an_open_number_of_keys_stays() -> None:
    layer = Layer(1, 8, 8, (3,))
    inputs, constants = layer.sequences | layer.caches | layer.lens, layer.constants
    inputs["total"] = constants.pop("total")
    assert "is no constant" in stays([layer.node(inputs | constants)], inputs, constants)
