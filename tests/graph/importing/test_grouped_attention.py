"""com.microsoft's GroupQueryAttention gives the same numbers written out as ONNX Runtime's own kernel: prompts, and rows behind a cache."""

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
from tests.graph.importing.test_fused_layers import ROWS, network, stays, vendor
from toolchain.graph.importing.fused_layers import write_layers
from toolchain.graph.importing.load import load_graph
from toolchain.passes.attention import find_attention
from toolchain.passes.rotary import find_rotary

Array = np.ndarray
HEADS, SHARED, LONGEST = 4, 2, 32
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
        sizes = {"q": HEADS, "k": SHARED, "v": SHARED}
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
        made = vendor("GroupQueryAttention", operands, ["y", "y1", "y2"], num_heads=HEADS, kv_num_heads=SHARED, **attributes, **more)
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
