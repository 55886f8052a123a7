"""Advice goes by the code of a reason and by the network; each command in it is one that works."""

import re
import shlex

import pytest

from toolchain.passes.fuse import FAMILIES, family_of
from toolchain.passes.templates import default_templates
from toolchain.report.advice import Advisor, activations
from toolchain.spec.reasons import Why

PICTURES = Advisor("vta --set LOG_WGT_BUFF=17", ("Relu", "Clip"))
ROWS = Advisor("vta", ("Relu",), convolutional=False)
NO_ADVICE = {Why.CONVERTS, Why.FOLDED, Why.UNUSED}
BEHIND = {
    Why.OUT_OF_RANGE, Why.STAGES, Why.NO_WEIGHT_SCALE, Why.SHIFT, Why.SUM_BITS, Why.PRODUCT_BITS, Why.EXACT_BITS, Why.NO_MULTIPLIER,
    Why.NO_FACTOR_SCALE,
}  # fmt: skip
"""Reasons behind others, which have the advice."""
COMMAND = re.compile(r"`(tilewright [^`]*)`")


def example(member: Why) -> str:
    """The advice for a reason of a code with some arguments."""
    values = {"number": 3, "text": "multiply"}
    forms = member.value.arguments
    arguments = {name: values["number"] if form.endswith(("g", "f")) else values["text"] for name, form in forms.items()}
    return PICTURES.advise(member((), **arguments), "Mul")


@pytest.mark.parametrize("member", [member for member in Why if member not in NO_ADVICE | BEHIND], ids=lambda member: member.name)
def test_every_code_has_advice(member: Why) -> None:
    assert example(member)


def test_every_command_in_advice_works(capsys: pytest.CaptureFixture[str]) -> None:
    from toolchain.cli import main

    found = dict.fromkeys(command for member in Why for command in COMMAND.findall(example(member)))
    assert len(found) >= 2
    for command in found:
        main(shlex.split(command)[1:])
        assert capsys.readouterr().out


def test_a_missing_kernel_is_one_to_write() -> None:
    lacking = Why.NO_KERNEL(operation="multiply")
    assert PICTURES.advise(lacking, "Mul").startswith("Write a kernel for multiply (docs/kernels.md")
    assert "Or else train with Relu or Clip" in PICTURES.advise(lacking, "Mul")


def test_no_other_layers_are_advised_where_the_network_is_not_of_convolutions() -> None:
    for operator in ("Mul", "Gelu", "Softmax"):
        for reason in (Why.NO_TEMPLATE(family=family_of(operator)), Why.NO_KERNEL(operation="multiply")):
            assert not re.search("[Tt]rain|batch norm", ROWS.advise(reason, operator))


def test_operators_are_of_one_family() -> None:
    operators = [name for names in FAMILIES.values() for name in names.split()]
    assert len(set(operators)) == len(operators)
    assert family_of("NonMaxSuppression") == ""
    assert activations(default_templates()) == ["Relu", "Clip", "LeakyRelu"]
