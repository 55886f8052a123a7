"""The parts of the sandbox: prices counted by hand, Python's own results, and refusals with their line."""

from collections.abc import Iterator

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2.exceptions import SecurityError

from toolchain.schedule import sandbox_filters as filters
from toolchain.schedule.sandbox import checked_tree
from toolchain.schedule.sandbox_filters import (
    BITS,
    FILTERS,
    TESTS,
    apply,
    checked_width,
    format_text,
    formatted,
    indented,
    joined,
    printed,
    replaced,
    total,
    weighed,
)

SMALL = st.integers(-(10**6), 10**6)
WORD = st.text("ab\n", max_size=12)


@pytest.fixture(autouse=True)
def _rendering() -> Iterator[None]:
    token = filters.begin()
    yield
    filters.end(token)


def spent(value: object) -> int:
    """Units that the work so far took, of `value` made in the call."""
    del value
    return filters.WORK - filters._CURRENT.get().left


def test_a_value_is_worth_its_entries_and_a_number_its_words() -> None:
    values = (0, (1 << 63) - 1, 1 << 63, "abc", [1, 2], {}, range(7), None, 1.5)
    assert [filters.size_of(value) for value in values] == [1, 1, 2, 4, 3, 1, 8, 1, 1]


def test_work_ends_at_its_limit_and_depth_at_its_own() -> None:
    filters.spend(filters.WORK)
    with pytest.raises(SecurityError, match="needs more than 10,000,000 units"):
        filters.spend(1)
    filters.deeper(filters.DEPTH)
    with pytest.raises(SecurityError, match="more than 40 deep"):
        filters.deeper(1)
    filters.deeper(-1)


def test_a_rendering_inside_another_has_work_of_its_own() -> None:
    filters.spend(5)
    inner = filters.begin()
    filters.spend(7)
    assert spent(None) == 7
    filters.end(inner)
    assert spent(None) == 5


def test_filters_pay_for_arguments_and_results() -> None:
    assert spent(joined(["ab", 12], ", ")) == 2 + 2 + 2 * 2
    assert spent(replaced("aab", "a", "xyz")) == 8 + 3 + 2 * 3
    assert spent(indented("a\nb", 3)) == 17 + 3 * 2
    assert spent(weighed([1, 2, 3], 4)) == 23 + 4 * 4
    assert spent(FILTERS["reverse"]("abcd")) == 39 + 5 + 5
    assert spent(TESTS["even"](4)) == 49 + 1 + 1


@given(WORD, st.sampled_from(("a", "b", "ab")), WORD, st.integers(0, 9))
def test_texts_are_those_of_python(text: str, old: str, new: str, width: int) -> None:
    assert replaced(text, old, new) == text.replace(old, new)
    assert replaced(text, old, new, 1) == text.replace(old, new, 1)
    assert joined([text, new, width], old) == old.join([text, new, str(width)])
    assert indented(text, width, True).replace("\n" + " " * width, "\n").strip(" ") == text
    assert formatted("%s|%3d", text, width) == f"{text}|{width:3d}"


@given(SMALL, SMALL, st.integers(0, 60))
def test_operators_are_those_of_python(left: int, right: int, count: int) -> None:
    assert apply("+", left, right) == left + right
    assert apply("*", left, right) == left * right
    assert apply("**", left, count) == left**count
    assert apply("%", left, count + 1) == left % (count + 1)
    assert apply("*", "ab", count) == "ab" * count
    assert apply("%", "%d of %s", (left, right)) == f"{left} of {right}"
    assert total([left, right], count) == left + right + count


def test_a_number_has_4096_bits_at_most() -> None:
    assert apply("**", 2, BITS // 2).bit_length() == BITS // 2 + 1
    with pytest.raises(SecurityError, match="more than 4096 bits"):
        apply("**", 2, BITS // 2 + 1)
    with pytest.raises(SecurityError, match="more than 4096 bits"):
        apply("*", 1 << BITS // 2, 1 << BITS // 2)


def test_a_width_is_written_out_and_small() -> None:
    checked_width("", "256")
    for width in ("257", "0000001", "*"):
        with pytest.raises(SecurityError, match="256 at most, written out"):
            checked_width(width)
    assert format_text("%5.2f", (1.234,)) == " 1.23"


def test_a_list_has_no_text_of_its_own_and_no_sum_of_texts() -> None:
    assert [printed(value) for value in ("a", 3, 1.5)] == ["a", "3", "1.5"]
    with pytest.raises(TypeError, match="not a list"):
        printed([1])
    with pytest.raises(TypeError, match="'sum' adds numbers"):
        total(["a"])


def test_a_loop_pays_for_its_body_in_each_turn() -> None:
    environment = jinja2.Environment(autoescape=False)
    environment.filters |= FILTERS
    costs = []
    for turns in (0, 1, 10):
        token = filters.begin()
        tree = checked_tree(environment.parse("{% for i in n %}abc{% endfor %}"), environment, "a.j2")
        assert environment.from_string(tree).render(n=list(range(turns))) == "abc" * turns
        costs.append(spent(None))
        filters.end(token)
    turn = 1 + len("abc") + 2  # itself, the characters of its body, and the body's two parts: the output and its text
    assert [costs[1] - costs[0], costs[2] - costs[0]] == [turn, 10 * turn]


@pytest.mark.parametrize("text", ["{% extends 'b' %}", "{{ 1 | nosuch }}", "{% include name %}", "{% for i in [] recursive %}{% endfor %}"])
def test_a_construct_that_cannot_be_bounded_is_refused_in_its_line(text: str) -> None:
    environment = jinja2.Environment(autoescape=False)
    environment.filters["nosuch"] = str
    with pytest.raises(jinja2.TemplateSyntaxError) as caught:
        checked_tree(environment.parse(f"\n{text}"), environment, "a.j2")
    assert (caught.value.lineno, caught.value.filename) == (2, "a.j2")
