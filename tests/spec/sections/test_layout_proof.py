"""Blocked maps of any block size are proved on samples; broken ones are refused."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spec.small import small
from toolchain.spec.errors import UserError
from toolchain.spec.evaluate import constant
from toolchain.spec.model import Layout
from toolchain.spec.sections.layout_proof import MAX_PLACES, samples

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
