"""Which scale and which magnitude follow from a meaning."""

import itertools

import pytest

from toolchain.operations.factors import Factors, factors_of
from toolchain.operations.library import builtin_kinds
from toolchain.spec.errors import Source, Span, UserError
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Expr, Index, parse_expr, rewrite

SCALES = {"x": "x", "z": "z", "slopes": "slopes", "unit": "slopes"}


def parsed(text: str) -> Expr:
    return parse_expr(text, lambda line, column: Span(Source("test.yaml", text), line, column + 1))


def elements(expr: Expr) -> Expr:
    """The operands as plain numbers."""
    return rewrite(expr, lambda e: e.base if isinstance(e, Index) else None)


@pytest.mark.parametrize(
    ("text", "counts", "size"),
    [
        ("x[i] * z[i]", {"x": 1, "z": 1}, 1),
        ("x[i] * x[i]", {"x": 2}, 1),
        ("-x[i]", {"x": 1}, 1),
        ("x[i] if x[i] >= 0 else -x[i]", {"x": 1}, 1),
        ("x[i] * (slopes[i] if x[i] < 0 else unit)", {"x": 1, "slopes": 1}, 1),
        ("(x[i] + 2 * x[j]) * z[i] if i < 3 else 0", {"x": 1, "z": 1}, 3),
        ("max(x[i], -x[i]) * abs(x[j] - x[i])", {"x": 2}, 2),
    ],
)
def test_factors(text: str, counts: dict[str, int], size: int) -> None:
    expr = parsed(text)
    found = factors_of(expr, SCALES)
    assert found == Factors(counts, size)
    for x, z, slope in itertools.product((-8, -1, 0, 7), repeat=3):
        values = {"x": x, "z": z, "slopes": slope, "unit": 4, "i": 1, "j": 2}
        once, twice = (constant(elements(expr), {name: value * (k if name in SCALES else 1) for name, value in values.items()}) for k in (1, 2))
        assert twice == once * 2**found.total, "scales multiply as often as they are counted"
        assert abs(once) <= found.size * 8**found.total


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(x[i] - z[i]) * x[i]", "parts of different scales meet: 'x' and 'z'"),
        ("x[i] * x[i] if x[i] > 0 else x[i]", "parts of different scales meet: 'x' \\* 'x' and 'x'"),
        ("x[i] if x[i] > 3 else 0", "parts of different scales meet: 'x' and a number"),
        ("x[i] >> 1", "no scale follows"),
        ("x[i] * height", "no scale follows"),
    ],
)
def test_what_has_no_scale(text: str, message: str) -> None:
    with pytest.raises(UserError, match=f"E1301 {message}"):
        factors_of(parsed(text), SCALES)


def test_the_toolchains_own() -> None:
    kinds = builtin_kinds()
    assert kinds["multiply"].factors == Factors({"x": 1, "z": 1})
    assert kinds["conv2d"].factors == Factors({"x": 1, "weight": 1})
    assert kinds["prelu"].factors == Factors({"x": 1, "slopes": 1})
