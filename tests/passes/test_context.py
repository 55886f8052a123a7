"""A user's wishes: patterns of names and operators, the first that fits, and the reasons that they become."""

import onnx_ir as ir
import pytest

from toolchain.passes.context import fits, give, keep, keeps, rule, wish_for
from toolchain.spec.reasons import Why, text_of

NODE = ir.node("Conv", [], name="head/1", num_outputs=1)


@pytest.mark.parametrize(("pattern", "fitting"), [("head/*", True), ("Conv", True), ("Con", False), ("head", False), ("head/?", True)])
def test_a_pattern_is_of_names_and_operators(pattern: str, fitting: bool) -> None:
    assert fits(NODE, [pattern]) is fitting


def test_the_first_wish_that_fits_one_of_the_nodes_holds() -> None:
    wishes = (keep(["tail*"]), give(["head*"], "one"), rule(["Conv"], "two", "it is faster"))
    other = ir.node("Relu", [], name="tail/1", num_outputs=1)
    assert wish_for([NODE], wishes) is wishes[1]
    assert wish_for([NODE, other], wishes) is wishes[0]
    assert wish_for([NODE], wishes[2:]) is wishes[2]
    assert wish_for([other], wishes[1:]) is None


def test_reasons_say_whose_wish_it_was() -> None:
    found = [keep([]), give([], "one"), rule([], "one", "why not"), rule([], "", "it's small")]
    assert [text_of(wish.reason) for wish in found] == [
        "the model's file keeps it on the host",
        "the model's file gives it to one",
        "by a rule of the deployment it is on one: why not",
        "by a rule of the deployment it is on the host: it's small",
    ]
    assert [keeps([wish.reason]) for wish in found] == [True, False, False, True]
    assert not keeps([Why.NO_MACHINE()])
