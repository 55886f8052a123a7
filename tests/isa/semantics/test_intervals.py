from hypothesis import given, settings
from hypothesis import strategies as st

from toolchain.isa.semantics.intervals import Interval, accumulated, binary, call, compare, hull, meet, pull
from toolchain.spec.evaluate import FUNCTIONS, OPERATORS

SPANS = st.tuples(st.integers(-300, 300), st.integers(0, 40)).map(lambda t: (t[0], t[0] + t[1]))
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")


def holds(bounds: Interval, value: int) -> bool:
    return bounds[0] <= value <= bounds[1]


@settings(max_examples=90)
@given(st.sampled_from([op for op in OPERATORS if op not in COMPARISONS]), SPANS, SPANS, st.data())
def test_every_operator_stays_inside_its_interval(op: str, a: Interval, b: Interval, data: st.DataObject) -> None:
    x, y = data.draw(st.integers(*a)), data.draw(st.integers(*b))
    if (op in ("//", "%") and y == 0) or (op in ("<<", ">>") and y < 0):
        return
    assert holds(binary(op, a, b), OPERATORS[op](x, y))


@settings(max_examples=80)
@given(st.sampled_from(COMPARISONS), SPANS, SPANS, st.data())
def test_comparisons_and_what_they_tell(op: str, a: Interval, b: Interval, data: st.DataObject) -> None:
    x, y = data.draw(st.integers(*a)), data.draw(st.integers(*b))
    value = bool(OPERATORS[op](x, y))
    assert holds(compare(op, a, b), int(value))
    if value:
        left = pull(op, a, b)
        assert left is not None
        assert holds(left, x)
        assert left[0] >= a[0]
        assert left[1] <= a[1]


@settings(max_examples=80)
@given(st.sampled_from(["min", "max", "abs", "ceil_div", "clog2", "align"]), SPANS, SPANS, st.data())
def test_every_function_stays_inside_its_interval(name: str, a: Interval, b: Interval, data: st.DataObject) -> None:
    x, y = data.draw(st.integers(*a)), data.draw(st.integers(*b))
    if name in ("ceil_div", "align") and y == 0:
        return
    args, spans = ([x], [a]) if FUNCTIONS[name][0] == 1 else ([x, y], [a, b])
    assert holds(call(name, spans), FUNCTIONS[name][1](*args))


def test_intervals_are_tight_where_operators_are_monotone() -> None:
    assert binary("*", (-128, 127), (-128, 127)) == (-16256, 16384)
    assert binary(">>", (-5, 9), (1, 2)) == (-3, 4)
    assert binary("%", (0, 5), (8, 8)) == (0, 5)
    assert binary("//", (-7, 7), (-2, 2)) == (-7, 7)
    assert binary("&", (-128, 127), (15, 15)) == (0, 15)


def test_what_a_comparison_leaves() -> None:
    assert pull("<", (0, 9), (3, 5)) == (0, 4)
    assert pull("!=", (0, 9), (0, 0)) == (1, 9)
    assert pull("==", (0, 9), (12, 15)) is None


def test_accumulation_reaches_the_product_of_trips_and_term() -> None:
    assert accumulated((0, 0), (-16256, 16384), 3) == (-48768, 49152)
    assert accumulated((5, 7), (1, 2), 10) == (5, 27)


def test_hull_and_meet() -> None:
    assert hull((0, 3), (-2, 1)) == (-2, 3)
    assert meet((0, 3), (2, 9)) == (2, 3)
    assert meet((0, 1), (2, 9)) is None
