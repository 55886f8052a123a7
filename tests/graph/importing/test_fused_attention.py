"""Fused attention gives the same numbers written out."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.imported import normal
from tests.graph.importing.test_fused_layers import HEADS, ROWS, WIDTH, check, stays, vendor
from tests.graph.onnx_builder import n

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
