"""Reasons as data: words with arguments in place, and keys that are equal for equal reasons."""

import pytest

from toolchain.spec.reason import Reason, Wording, read_reasons, shown
from toolchain.spec.typed_json import MistypedError

WORDS = Wording("{node:node} has {count} axes of {tensor:tensor}, {share:.1f} % of {memory:name}: {because}")
REASON = Reason("some", {"node": "n", "count": 3, "tensor": "x", "share": 12.345, "memory": "acc"})


def test_arguments_are_those_of_the_text_with_their_formats() -> None:
    assert WORDS.arguments == {"node": "node", "count": "", "tensor": "tensor", "share": ".1f", "memory": "name"}


def test_a_text_quotes_names_and_formats_numbers() -> None:
    assert WORDS.say(REASON, "no room") == "'n' has 3 axes of 'x', 12.3 % of 'acc': no room"
    assert WORDS.say(REASON, "no room", general=True) == "a node has 3 axes of a tensor, 12.3 % of 'acc': no room"


def test_numbers_in_a_row_are_a_list() -> None:
    assert shown((1, 2), "") == "[1, 2]"


def test_equal_reasons_have_equal_keys_whatever_the_order_of_their_arguments() -> None:
    turned = Reason("some", dict(reversed(REASON.arguments.items())))
    assert turned.key == REASON.key
    assert Reason("some", because=(REASON,)).key != Reason("some").key


@pytest.mark.parametrize("text", ["{}", "[{}]", '[{"code": 3, "arguments": {}, "because": []}]', "["])
def test_text_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # the decoder's own error for text that is no JSON
        read_reasons(text)
    assert text == "[" or isinstance(caught.value, MistypedError)
