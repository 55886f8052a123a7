"""The reference against definitions written out in loops, and against itself cut into parts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolchain.operations import reference
from toolchain.operations.library import builtin_kinds
from toolchain.operations.numbers import numbers_of
from toolchain.operations.reference import accumulate, contract

KINDS = builtin_kinds()


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_a_convolution_tap_by_tap(data: st.DataObject) -> None:
    rng, group = np.random.default_rng(data.draw(st.integers(0, 2**20))), data.draw(st.integers(1, 3))
    (sh, sw), (dh, dw) = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3))), data.draw(st.tuples(st.integers(1, 2), st.integers(1, 2)))
    pads, (kh, kw) = data.draw(st.tuples(*[st.integers(0, 2)] * 4)), data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    x, w = rng.integers(-128, 128, (2, 2 * group, 6, 7)), rng.integers(-128, 128, (3 * group, 2, kh, kw))
    bias = rng.integers(-999, 999, 3 * group)
    attributes = {"strides": (sh, sw), "pads": pads, "dilations": (dh, dw), "group": group}
    numbers = numbers_of(KINDS["conv2d"], {"x": x.shape, "weight": w.shape, "bias": bias.shape}, attributes)
    found = accumulate(KINDS["conv2d"], numbers, {"x": x, "weight": w, "bias": bias})
    padded = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    for n, o, p, q in np.ndindex(found.shape):
        rows = slice(o // 3 * 2, o // 3 * 2 + 2)
        window = padded[n, rows, p * sh : p * sh + (kh - 1) * dh + 1 : dh, q * sw : q * sw + (kw - 1) * dw + 1 : dw]
        assert found[n, o, p, q] == (window * w[o]).sum() + bias[o]


@pytest.mark.parametrize("name", ["conv2d", "max_pool", "matmul", "add", "average_pool"])
def test_parts_are_the_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, kind = np.random.default_rng(3), KINDS[name]
    shapes = {"x": (2, 4, 6, 5), "z": (2, 4, 6, 5), "weight": (3, 4, 3, 2), "bias": (3,)}
    if name == "matmul":
        shapes = {"x": (2, 5, 4), "z": (2, 4, 7)}
    given_ = {each.name: rng.integers(-128, 128, shapes[each.name]) for each in kind.operands}
    window = {"kernel_shape": (3, 2), "strides": (1, 1), "pads": (1, 0, 1, 1), "dilations": (1, 1), "group": 1}
    numbers = numbers_of(kind, {key: array.shape for key, array in given_.items()}, window) | dict.fromkeys(kind.multipliers, 3)
    whole = accumulate(kind, numbers, given_)
    monkeypatch.setattr(reference, "MOST", 40)
    np.testing.assert_array_equal(accumulate(kind, numbers, given_), whole)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 3), st.booleans(), st.booleans()), min_size=1, max_size=5), st.data())
def test_a_contraction_is_the_sum_of_products(axes: list[tuple[int, bool, bool]], data: st.DataObject) -> None:
    outer = data.draw(st.integers(1, len(axes)))
    rng, sizes = np.random.default_rng(data.draw(st.integers(0, 999))), [size for size, _, _ in axes]
    sizes = [size if varies or k < outer else 1 for k, (size, varies) in enumerate(zip(sizes, (a or b for _, a, b in axes), strict=True))]
    a = rng.integers(-9, 10, [size if varies else 1 for size, (_, varies, _) in zip(sizes, axes, strict=True)])
    b = rng.integers(-9, 10, [size if varies else 1 for size, (_, _, varies) in zip(sizes, axes, strict=True)])
    wanted = (np.broadcast_to(a, sizes) * np.broadcast_to(b, sizes)).sum(tuple(range(outer, len(sizes))))
    np.testing.assert_array_equal(contract(a, b, outer, sizes), wanted)
