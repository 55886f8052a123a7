"""Answers are made once for each digest, and digests tell apart all that differs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.spec.memo import Memo, array_parts, digest_of_parts


def test_an_answer_is_made_once_and_the_oldest_is_forgotten() -> None:
    memo, made = Memo[str](2), list[str]()

    def ask(key: str) -> str:
        def make() -> str:
            made.append(key)
            return key.upper()

        return memo.of(key, make)

    assert [ask(key) for key in "abacab"] == ["A", "B", "A", "C", "A", "B"]
    assert made == ["a", "b", "c", "b"]  # c took the place of b, which was asked for longest ago


def test_nothing_is_kept_without_a_digest_or_of_a_failure() -> None:
    memo, made = Memo[int](2), list[int]()
    for number in range(2):
        memo.of("", lambda number=number: made.append(number) or 0)
    assert made == [0, 1]
    with pytest.raises(ZeroDivisionError):
        memo.of("a", lambda: 1 // 0)
    assert memo.of("a", lambda: 3) == 3


parts = st.lists(st.binary(max_size=3), max_size=3)


@given(parts, parts)
def test_digests_are_equal_for_equal_parts_alone(one: list[bytes], other: list[bytes]) -> None:
    assert (digest_of_parts(one) == digest_of_parts(other)) == (one == other)


def test_arrays_differ_by_name_type_shape_and_elements() -> None:
    given = [
        {"a": np.zeros(4, np.int8)}, {"b": np.zeros(4, np.int8)}, {"a": np.zeros(1, np.int32)}, {"a": np.zeros((2, 2), np.int8)},
        {"a": np.array([0, 0, 0, 1], np.int8)}, {"a": np.array(["x"], object)}, {"a": np.array(["y"], object)},
    ]  # fmt: skip
    digests = [digest_of_parts(array_parts(each)) for each in given]
    assert len({*digests}) == len(given)
    assert digest_of_parts(array_parts({"a": np.array(["x"], object)})) == digests[5]
