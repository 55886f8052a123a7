"""No name of a machine may be a word of the languages."""

import pytest

from tests.spec.small import small
from toolchain.isa.semantics.expressions import REDUCTIONS
from toolchain.spec.errors import UserError
from toolchain.spec.evaluate import FUNCTIONS
from toolchain.spec.words import BUILT_IN, RESERVED


@pytest.mark.parametrize("word", sorted(RESERVED))
def test_a_rule_cannot_take_a_word(word: str) -> None:
    with pytest.raises(UserError, match=f"E0145 the name '{word}' is a word of the language already"):
        small(("  cut: {type", f"  {word}: {{type"))


def test_every_function_that_the_semantics_know_is_a_word() -> None:
    assert {*BUILT_IN, *FUNCTIONS} >= {*REDUCTIONS, "dot", "wrap", "saturate"}
    assert {*BUILT_IN, *FUNCTIONS} <= RESERVED
