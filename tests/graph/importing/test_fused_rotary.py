"""Rotary positions as one operator give the same numbers written out, in every form that ONNX Runtime computes."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.imported import normal
from tests.graph.importing.test_fused_layers import check, stays, vendor
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
