"""What is written is read; what is of another type is refused with its place."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolchain.spec.typed_json import PLAIN_DEFAULT, MistypedError, from_json, to_json


class Size(NamedTuple):
    height: int
    width: int


@dataclass(frozen=True)
class Leaf:
    name: str
    flag: bool
    weight: float


@dataclass(frozen=True)
class Tree:
    size: Size
    leaves: tuple[Leaf, ...]
    named: Mapping[str, Leaf]
    counts: Mapping[str, int]
    index: int = -1


leaves = st.builds(Leaf, st.text(max_size=5), st.booleans(), st.floats(allow_nan=False, allow_infinity=False))
integers = st.integers(-(1 << 62), 1 << 62)
trees = st.builds(
    Tree,
    st.builds(Size, integers, integers),
    st.lists(leaves, max_size=3).map(tuple),
    st.dictionaries(st.text(max_size=3), leaves, max_size=3),
    st.dictionaries(st.text(max_size=3), integers, max_size=3),
    integers,
)
WHOLE: dict[str, Any] = to_json(Tree(Size(1, 2), (Leaf("a", True, 0.5),), {"b": Leaf("b", False, 1.0)}, {"c": 3}))


@settings(max_examples=40)
@given(trees)
def test_through_text_and_back(tree: Tree) -> None:
    assert from_json(Tree, json.loads(json.dumps(to_json(tree)))) == tree


def test_names_are_sorted_and_fields_are_not() -> None:
    tree = Tree(Size(1, 2), (), {}, {"z": 1, "a": 2})
    assert list(to_json(tree)) == ["size", "leaves", "named", "counts", "index"]
    assert list(to_json(tree)["counts"]) == ["a", "z"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"size": [1]}, "size has 1 values, not 2"),
        ({"size": [1, 2.0]}, "size.width is no proper int"),
        ({"size": {"height": 1, "width": 2}}, "size is no proper list"),
        ({"leaves": {}}, "leaves is no proper list"),
        ({"leaves": [{"name": "a", "flag": 1, "weight": 1}]}, r"leaves\[0\].flag is no proper bool"),
        ({"leaves": [{"name": "a", "flag": True}]}, r"leaves\[0\] lacks 'weight'"),
        ({"named": {"k": {"name": "a", "flag": True, "weight": "1"}}}, "named.k.weight is no proper float"),
        ({"counts": {"c": True}}, "counts.c is no proper int"),
        ({"counts": {"c": 1 << 63}}, "counts.c is out of range"),
        ({"named": {"k": {"name": "a", "flag": True, "weight": float("inf")}}}, "out of range"),
        ({"index": None}, "index is no proper int"),
        ({"more": 1}, "unknown 'more'"),
    ],
)
def test_other_types_are_refused_with_their_place(change: dict[str, Any], said: str) -> None:
    with pytest.raises(MistypedError, match=said):
        from_json(Tree, {**WHOLE, **change})


def test_a_whole_number_is_a_float_too() -> None:
    assert from_json(Leaf, {"name": "", "flag": False, "weight": 3}).weight == 3.0


@dataclass(frozen=True)
class Spare:
    name: str
    more: tuple[str, ...] = field(default=(), metadata=PLAIN_DEFAULT)


@given(st.builds(Spare, st.text(max_size=3), st.lists(st.text(max_size=3), max_size=2).map(tuple)))
def test_a_spared_field_is_written_only_where_it_says_something(spare: Spare) -> None:
    written = to_json(spare)
    assert ("more" in written) == bool(spare.more)
    assert from_json(Spare, json.loads(json.dumps(written))) == spare


def test_a_spared_field_is_checked_like_any_other() -> None:
    with pytest.raises(MistypedError, match="more"):
        from_json(Spare, {"name": "a", "more": "b"})
