"""Index maps: names, an arrow, expressions, each at its place."""

import pytest

from tests.spec.small import nodes
from toolchain.spec.errors import UserError
from toolchain.spec.expr import Binary, Const, Name
from toolchain.spec.sections.index_maps import read_map


def test_a_map() -> None:
    names, body = read_map(nodes('m: "n c -> n, c // 16"\n').value["m"])
    assert names == ("n", "c")
    assert body == (Name("n"), Binary("//", Name("c"), Const(16)))
    assert str(body[1].span) == "t.yaml:1:15"


@pytest.mark.parametrize("text", ["n c", "-> n", "n n -> n", "1 -> 2", "n ->", "n -> n] + [n"])
def test_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"E0112|E012[01]"):
        read_map(nodes(f'm: "{text}"\n').value["m"])
