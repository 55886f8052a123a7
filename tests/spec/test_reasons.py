"""Reasons are data: read back as they were, grouped by code, in words that one table has."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.spec.errors import UserError, fail
from toolchain.spec.reason import Reason, read_reasons, reasons_json
from toolchain.spec.reasons import Why, group_key, reasons_of_error, refuse, text_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reasons.md"
VALUES = st.text(max_size=8) | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False, allow_infinity=False) | st.tuples(st.integers(0, 9))
LEAVES = st.builds(Reason, st.sampled_from([member.name.lower() for member in Why]), st.dictionaries(st.text(max_size=5), VALUES, max_size=3))
REASONS = st.recursive(
    LEAVES, lambda inner: st.builds(Reason, st.just("pad_refused"), st.just({"node": "a"}), st.lists(inner, max_size=2).map(tuple))
)


@given(st.lists(REASONS, max_size=3))
def test_reasons_are_read_back_as_they_were(reasons: list[Reason]) -> None:
    assert read_reasons(reasons_json(reasons)) == tuple(reasons)


def test_a_reason_has_the_arguments_of_its_words() -> None:
    with pytest.raises(TypeError, match="WRONG_RANK takes tensor, rank, wanted, not tensor"):
        Why.WRONG_RANK(tensor="x")


def test_names_of_the_model_s_parts_do_not_divide_a_group() -> None:
    one, other, third = (Why.WRONG_RANK(tensor=name, rank=rank, wanted=4) for name, rank in (("a", 3), ("b", 3), ("b", 2)))
    assert group_key(one) == group_key(other) != group_key(third)
    assert (text_of(one), text_of(one, general=True)) == ("'a' has 3 axes, not 4", "a tensor has 3 axes, not 4")
    behind = [Why.PAD_REFUSED([each], node=name) for name, each in (("c", one), ("d", other))]
    assert group_key(behind[0]) == group_key(behind[1])
    assert text_of(behind[0], general=True) == "with it, a node does not run on the machine: a tensor has 3 axes, not 4"


def test_a_name_of_the_machine_s_is_never_left_out() -> None:
    """A memory of the machine is no tensor."""
    room = Why.TILE_ROOM(place="w", elements=9, memory="wgt", depth=4)
    assert text_of(room, general=True) == "no tile of it fits on chip: 'w' takes 9 elements of 'wgt', which has 4"


@pytest.mark.parametrize("general", [False, True])
def test_no_code_says_a_word_twice(general: bool) -> None:
    """Neither in a row (`the the`) nor around an article (`node a node`), whatever stands behind it."""
    for member in Why:
        sample = {name: 7 if re.search(r"[fg]$", form) else f"the_{name}" for name, form in member.value.arguments.items()}
        behind = [Why.WRONG_RANK(tensor="x", rank=3, wanted=4)] if "{because}" in member.value.text else []
        told = text_of(member(behind, **sample), general)
        assert not re.search(r"\b(\w+) (?:an? |the )?\1\b", told), f"{member.name}: {told}"


def test_a_reason_without_names_has_one_article() -> None:
    reason = Why.NO_INTEGERS([Why.NOT_FINITE()], node="conv1", operation="conv2d")
    assert text_of(reason) == "node 'conv1' (conv2d) cannot be quantised: a factor is not finite"
    assert text_of(reason, general=True) == "a node (conv2d) cannot be quantised: a factor is not finite"


def test_an_error_is_its_reasons() -> None:
    reason = Why.REQUIRES(kernel="pool", note="the window is large")
    error = UserError(*refuse("E1003", reason).diagnostics * 2, *fail("E1003", "the shapes do not fit").diagnostics)
    assert reasons_of_error(error) == (reason, Why.REFUSED(error="E1003", note="the shapes do not fit"))
    assert error.diagnostics[0].message == "kernel 'pool' cannot do this: the window is large"


def page() -> str:
    rows = [f"| `{member.name.lower()}` | {member.value.text} | {', '.join(member.value.arguments) or ''} |".replace("  ", " ") for member in Why]
    return "\n".join(["| code | words | arguments |", "|---|---|---|", *rows])


def test_the_page_lists_every_code() -> None:
    assert page() in PAGE.read_text(), f"docs/reasons.md lacks this table:\n{page()}"
