"""What follows from some fields must hold for every value of the others."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spec.test_evaluate import ARITHMETIC, NAMES
from toolchain.isa.semantics.partial import partial
from toolchain.spec.errors import UserError
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Binary, Choose, Const, Expr, Logic, Name


@settings(max_examples=60, deadline=None)
@given(st.builds(Choose, ARITHMETIC, ARITHMETIC, ARITHMETIC), st.sets(st.sampled_from(sorted(NAMES))), st.integers(-20, 20), st.integers(-20, 20))
def test_sound(tree: Expr, known: set[str], one: int, two: int) -> None:
    given_values = {name: NAMES[name] for name in known}
    found = partial(tree, given_values)
    for rest in (one, two):
        try:
            value = constant(tree, {**dict.fromkeys(NAMES, rest), **given_values})
        except UserError:
            continue
        assert found in (None, value)


def test_all_known_is_the_value() -> None:
    assert partial(Binary("*", Name("a"), Const(3)), {"a": 4}) == 12


def test_lazy_sides_settle() -> None:
    unknown = Name("x")
    assert partial(Logic("and", (unknown, Const(0))), {}) == 0
    assert partial(Logic("or", (unknown, Const(2))), {}) == 1
    assert partial(Choose(unknown, Const(5), Const(5)), {}) == 5
    assert partial(Choose(Const(0), unknown, Const(5)), {}) == 5
    assert partial(Binary("//", Const(1), Const(0)), {}) is None
