"""Blocked maps of any block size are proved on samples; broken ones are refused.

Layouts: blocked maps of any block size are proved; broken ones are refused.

Index maps: names, an arrow, expressions, each at its place."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spec.small import nodes, small
from toolchain.spec.errors import UserError
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Binary, Const, Name
from toolchain.spec.model import Copies, Layout
from toolchain.spec.sections.layouts import MAX_PLACES, read_map, samples

OLD = "  rows_of:\n"


def layout(text: str) -> Layout:
    return small((OLD, f"  mine:\n{text}{OLD}")).layouts[0]


def blocked(c: int, w: int, shape_c: str) -> str:
    return (
        f'    domain: {{n: N, c: C, h: H, w: W}}\n    map: "n c h w -> n, c // {c}, h, w // {w}, c % {c}, w % {w}"\n'
        f'    shape: [N, "{shape_c}", H, "ceil_div(W, {w})", {c}, {w}]\n'
        f'    inverse: "n i h j k l -> n, i * {c} + k, h, j * {w} + l"\n    written: true\n    type: i8\n'
    )


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 40), st.integers(1, 12))
def test_any_block(c: int, w: int) -> None:
    found = layout(blocked(c, w, f"ceil_div(C, {c})"))
    assert [constant(e, {"N": 2, "C": 17, "H": 5, "W": 9}) for e in found.shape] == [2, -(-17 // c), 5, -(-9 // w), c, w]
    assert (found.domain, found.extents, str(found.type)) == (("n", "c", "h", "w"), ("N", "C", "H", "W"), "i8")


@pytest.mark.parametrize("c", [2, 3, 16, 64])
def test_shape_that_forgets_the_rest_of_a_block(c: int) -> None:
    with pytest.raises(UserError, match=r"E0135 the element at .* is stored outside"):
        layout(blocked(c, 1, f"max(C // {c}, 1)"))


def test_padding_is_allowed_and_a_map_may_use_extents() -> None:
    found = layout('    domain: {c: C, h: H}\n    map: "c h -> H - 1 - h, c + 1"\n    shape: [H, C + 2]\n')
    assert not found.written


def test_samples_of_a_layout_with_many_copies_stay_small() -> None:
    domain = "    domain: {n: N, h: H, w: W, c: C}\n    copies: {k: 64, l: 64}\n"
    found = layout(f'{domain}    map: "n h w c k l -> n, h, w, c // 128, c % 128, k, l"\n    shape: [N, H, W, "ceil_div(C, 128)", 128, 64, 64]\n')
    assert max(math.prod(extents) for extents in samples(found)) * 64 * 64 <= MAX_PLACES


def test_a_map() -> None:
    names, body = read_map(nodes('m: "n c -> n, c // 16"\n').value["m"])
    assert names == ("n", "c")
    assert body == (Name("n"), Binary("//", Name("c"), Const(16)))
    assert str(body[1].span) == "t.yaml:1:15"


@pytest.mark.parametrize("text", ["n c", "-> n", "n n -> n", "1 -> 2", "n ->", "n -> n] + [n"])
def test_a_bad_map_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"E0112|E012[01]"):
        read_map(nodes(f'm: "{text}"\n').value["m"])


def test_an_element_may_stand_in_several_places() -> None:
    found = layout('    domain: {r: R}\n    copies: {k: 4}\n    map: "r k -> r // 2 + 3 - k, r % 2 + 2 * k"\n    shape: ["ceil_div(R, 2) + 3", 8]\n')
    assert (found.domain, found.copies) == (("r",), (Copies("k", 4),))
    assert list(found.chosen()) == [{"k": 0}, {"k": 1}, {"k": 2}, {"k": 3}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('    domain: {c: C}\n    copies: {k: 65}\n    map: "c k -> c, k"\n    shape: [C, 65]\n', "E0116 a count of copies is 2 to 64"),
        (
            '    domain: {c: C}\n    copies: {k: 2, l: 2, m: 2}\n    map: "c k l m -> c, k, l, m"\n    shape: [C, 2, 2, 2]\n',
            "E0116 copies have one or two names",
        ),
        ('    domain: {c: C}\n    copies: {k: 2}\n    map: "c -> c"\n    shape: [C]\n', "E0112 the map's names are not .* and those of copies: c k"),
        ('    domain: {c: C}\n    copies: {C: 2}\n    map: "c C -> c, C"\n    shape: [C, 2]\n', "E0145 the name 'C' is taken"),
        ('    domain: {c: C}\n    copies: {k: 2}\n    map: "c k -> c + k"\n    shape: [C + 1]\n', "E0135 .*"),
        (
            '    domain: {c: C}\n    copies: {k: 2}\n    map: "c k -> c, k"\n    shape: [C, 2]\n    inverse: "c k -> c"\n    written: true\n',
            "E0136 the machine writes this layout, so each element stands in one place",
        ),
        ('    domain: {c: C}\n    map: "c -> c, c"\n    shape: [C]\n', "E0135 the map gives 2 indices"),
        ('    domain: {c: C}\n    map: "d -> d"\n    shape: [C]\n', "E0112 the map's names"),
        ('    domain: {c: C}\n    map: "c -> c + W"\n    shape: [C]\n', "E0107 unknown name 'W'"),
        ('    domain: {c: c}\n    map: "c -> c"\n    shape: [c]\n', "E0145 the name 'c' is taken"),
        ('    domain: {LANES: C}\n    map: "LANES -> LANES"\n    shape: [C]\n', "E0145 the name 'LANES' is taken"),
        ('    domain: {c: C}\n    map: "c -> c"\n    shape: [C]\n    inverse: "a b -> a"\n', "E0136 the inverse leads from 2 to 1"),
        ('    domain: {c: C}\n    map: "c -> c"\n    shape: [C - 100]\n', "E0139 the stored array would be"),
        ('    domain: {c: C}\n    map: "c -> c // (c - 1)"\n    shape: [C]\n', "E0122 this divides by zero"),
        ('    domain: {c: C}\n    map: "c -> c[0]"\n    shape: [C]\n', "E0121 memory cannot be read here"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        layout(text)
