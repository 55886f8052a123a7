"""Rotary positions as one operator give the same numbers written out, in every form that ONNX Runtime computes.

Fused attention gives the same numbers written out.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.imported import normal
from tests.graph.importing.test_fused_layers import HEADS, ROWS, WIDTH, check, stays, vendor
from tests.graph.onnx_builder import n

BATCH, STEPS, TURNED, INNER, LONGEST = 2, 5, 3, 8, 11
Array = np.ndarray


def tables(*shape: int) -> dict[str, Array]:
    angles = normal(1, *shape)
    return {"cos": np.cos(angles), "sin": np.sin(angles)}


def x_of(by_heads: bool) -> dict[str, Array]:
    return {"x": normal(0, BATCH, TURNED, STEPS, INNER) if by_heads else normal(0, BATCH, STEPS, TURNED * INNER)}


PLACES = np.array([[3, 4, 5, 6, 7], [0, 1, 9, 2, 10]])


@settings(max_examples=24, deadline=None)
@given(st.booleans(), st.booleans(), st.sampled_from([0, 4, 6, 8]), st.booleans(), st.booleans())
def test_the_standards(by_heads: bool, interleaved: bool, width: int, placed: bool, known: bool) -> None:
    pairs = (width or INNER) // 2
    own = tables(LONGEST, pairs) if placed else tables(BATCH, STEPS, pairs)
    places = {"places": PLACES} if placed else {}
    more: dict[str, Any] = ({} if by_heads else {"num_heads": TURNED}) | ({"rotary_embedding_dim": width} if width else {})
    node = n("RotaryEmbedding", ["x", "cos", "sin", *places], ["y"], "r", interleaved=int(interleaved), **more)
    inputs, constants = (x_of(by_heads), own | places) if known else (x_of(by_heads) | own | places, {})
    made = check([node], inputs, constants, 23)
    assert not any(each.op_type == "RotaryEmbedding" for each in made.graph.node)


@settings(max_examples=24, deadline=None)
@given(st.booleans(), st.booleans(), st.sampled_from([0, 4]), st.booleans())
def test_the_vendors(by_heads: bool, interleaved: bool, width: int, first: bool) -> None:
    places = np.array([3]) if first else PLACES
    more: dict[str, Any] = {"rotary_embedding_dim": width, "num_heads": TURNED} if width else {}
    node = vendor("RotaryEmbedding", ["x", "places", "cos", "sin"], interleaved=int(interleaved), **more)
    check([node], x_of(by_heads) | {"places": places}, tables(LONGEST, (width or INNER) // 2))


def test_what_no_rule_says_stays() -> None:
    given = x_of(True) | {"places": PLACES}
    stays([vendor("RotaryEmbedding", ["x", "places", "cos", "sin"], scale=2.0)], given, tables(LONGEST, INNER // 2))
    stays([vendor("RotaryEmbedding", ["x", "places", "cos", "sin"], is_packed_batching=1)], given, tables(LONGEST, INNER // 2))


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


GROUPED = ["q", "k", "v", "", "", "lens", "total"]


def prompt(inner: int = 16, pairs: int = 0, last: tuple[int, int] = (ROWS - 1, ROWS - 1)) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Inputs and constants: four heads of queries and two of keys and values."""
    inputs = {name: normal(k, 2, ROWS, heads * inner) for k, (name, heads) in enumerate((("q", 4), ("k", 2), ("v", 2)))}
    angles = normal(3, 2 * ROWS, pairs or inner // 2)
    counts = {"lens": np.array(last, np.int32), "total": np.array(ROWS, np.int32)}
    return inputs, counts | {"cos": np.cos(angles), "sin": np.sin(angles)}


@settings(max_examples=16, deadline=None)
@given(st.booleans(), st.booleans(), st.booleans(), st.sampled_from([0.0, 0.3]))
def test_a_prompt_of_several_queries_to_a_key(turned: bool, interleaved: bool, kept: bool, scale: float) -> None:
    inputs, constants = prompt()
    tables = ["cos", "sin"] if turned else []
    more: dict[str, Any] = {"scale": scale} if scale else {}
    results = ["y", "y1", "y2"] if kept else ["y"]
    node = vendor("GroupQueryAttention", [*GROUPED, *tables], results, num_heads=4, kv_num_heads=2, **more)
    node.attribute.extend(n("x", [], [], "x", do_rotary=int(turned), rotary_interleaved=int(interleaved)).attribute)
    check([node], inputs, {name: array for name, array in constants.items() if name in node.input})


def test_the_first_channels_of_each_head_turn_where_tables_are_short() -> None:
    inputs, constants = prompt(inner=32, pairs=8)
    check([vendor("GroupQueryAttention", [*GROUPED, "cos", "sin"], num_heads=4, kv_num_heads=2, do_rotary=1)], inputs, constants)


def test_prompts_of_which_some_rows_do_not_count_stay() -> None:
    inputs, constants = prompt(last=(3, ROWS - 1))
    heads: dict[str, Any] = {"num_heads": 4, "kv_num_heads": 2}
    stays([vendor("GroupQueryAttention", [*GROUPED, "cos", "sin"], do_rotary=1, **heads)], inputs, constants)
    whole = prompt()[1]
    stays([vendor("GroupQueryAttention", GROUPED, **heads)], inputs | {"lens": whole.pop("lens")}, whole)  # known when it runs
    stays([vendor("GroupQueryAttention", GROUPED, local_window_size=2, **heads)], *prompt())
    earlier = {name: normal(4, 2, 2, 3, 16) for name in ("keys", "values")}
    stays([vendor("GroupQueryAttention", ["q", "k", "v", "keys", "values", "lens", "total"], **heads)], inputs | earlier, prompt()[1])
