"""A sum of products over a lane is that of the lanes one by one, and what is outside is told as before."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolchain.emulator.reference.frame import Frame, cut, factors, sum_of_products
from toolchain.isa.semantics import ir
from toolchain.spec.expr import Binary, Const


def access(lanes: tuple[Any, ...], dims: tuple[int, ...]) -> ir.Access:
    """Of a view whose element has these axes."""
    view: Any = SimpleNamespace(element=SimpleNamespace(dims=dims))
    return ir.Access(view=view, index=(), lanes=lanes, number=0)


def frame(lanes: dict[str, int], count: int) -> Frame:
    state: Any = None
    return Frame(state, "", {}, {}, {"c": count}, lambda _: None, lambda _: None, lanes=lanes)


@settings(max_examples=40)
@given(st.data(), st.permutations(["a", "c", "o"]), st.lists(st.integers(1, 4), min_size=3, max_size=3))
def test_a_cut_has_the_values_along_a_lane(data: st.DataObject, names: list[str], dims: list[int]) -> None:
    values = list(range(dims[0] * dims[1] * dims[2]))
    of = dict(zip(names, dims, strict=True))
    at = {name: data.draw(st.integers(0, of[name] - 1)) for name in "ao"}

    def value(c: int) -> int:
        first, second, third = ({**at, "c": c}[name] for name in names)
        return values[(first * dims[1] + second) * dims[2] + third]

    found = cut(access(tuple(names), tuple(dims)), "c", lambda _: values)(frame(at, of["c"]), of["c"])
    assert found == [value(c) for c in range(of["c"])]


@pytest.mark.parametrize(("at", "count"), [(2, 3), (-1, 3), (0, 4)])
def test_lanes_outside_are_left_to_the_slow_way(at: int, count: int) -> None:
    inside = cut(access(("c",), (4,)), "c", lambda _: [1, 2, 3, 4])
    outside = cut(access(("o", "c"), (2, 3)), "c", lambda _: [0] * 6)
    assert sum_of_products((inside, outside), "c", lambda _: 77)(frame({"o": at}, count)) == 77
    assert sum_of_products((inside, inside), "c", lambda _: 77)(frame({}, count)) == sum(n * n for n in range(1, count + 1))


def test_only_a_product_of_two_elements_is_one() -> None:
    one, other = ir.Load(access(("c",), (4,))), ir.Load(access(("o", "c"), (2, 4)))
    assert factors(Binary("*", one, other), "c") == (one.access, other.access)
    assert factors(Binary("*", one, other), "o") is None
    assert factors(Binary("+", one, other), "c") is None
    assert factors(Binary("*", one, Const(2)), "c") is None
    assert factors(Binary("*", one, ir.Load(access((Const(1), "c"), (2, 4)))), "c") is None
