"""Reasons are grouped by what they say, and ranked by the time of their nodes and of the borders beside them."""

import re
import shlex

import pytest

from toolchain.passes.fuse import FAMILIES, family_of
from toolchain.passes.templates import default_templates
from toolchain.report.costs import Border, CostRow, CostTable, Crossings
from toolchain.report.explain import LOSING, Advisor, Cause, Dropped, activations, find_causes, nodes_text
from toolchain.spec.reason import Reason
from toolchain.spec.reasons import Why, texts_of

PICTURES = Advisor("vta --set LOG_WGT_BUFF=17", ("Relu", "Clip"))
ROWS = Advisor("vta", ("Relu",), convolutional=False)
NO_ADVICE = {Why.CONVERTS, Why.FOLDED, Why.UNUSED}
BEHIND = {
    Why.OUT_OF_RANGE, Why.STAGES, Why.NO_WEIGHT_SCALE, Why.SHIFT, Why.SUM_BITS, Why.PRODUCT_BITS, Why.EXACT_BITS, Why.NO_MULTIPLIER,
    Why.NO_FACTOR_SCALE, Why.NO_WHOLE_FACTORS, Why.ARITHMETIC, Why.NO_STEP,
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


NONE = Crossings(0, 0.0, 0)
ADVISOR = Advisor("some", ("Relu", "Clip"))
ACTIVATION = Why.NO_TEMPLATE(family="activation")


def host(name: str, operators: str, ms: float, *reasons: Reason) -> CostRow:
    return CostRow(name, "host", operators, (name,), ms, 0.0, 0.0, 0.0, ms, 100, 10, texts_of(reasons), reasons=reasons)


def found(*rows: CostRow, borders: tuple[Border, ...] = (), samples: int = 1) -> tuple[Cause, ...]:
    return find_causes(CostTable(samples, True, rows, borders, NONE, NONE, NONE), ADVISOR)


def test_equal_reasons_are_one() -> None:
    rows = (
        host("a", "Sigmoid", 1.0, ACTIVATION),
        host("b", "Tanh", 2.0, ACTIVATION),
        host("c", "Add", 5.0, Why.WRONG_RANK(tensor="x", rank=3, wanted=4)),
    )
    axes, activation = found(*rows, host("d", "Add", 1.0, Why.WRONG_RANK(tensor="z", rank=3, wanted=4)))
    assert (axes.ways, axes.ms, axes.macs, axes.nodes, axes.operators) == (("a tensor has 3 axes, not 4",), 6.0, 200, ("c", "d"), "2 Add")
    assert (activation.ways, activation.nodes) == (("the machine computes no such activation",), ("a", "b"))
    assert activation.operators == "1 Sigmoid, 1 Tanh"


def test_a_border_counts_with_the_node_beside_it() -> None:
    border = Border("t", "region0", False, "a", 4.0, 2.0, 8, 40)
    first, second = found(host("a", "Sigmoid", 1.0, ACTIVATION), host("b", "Concat", 3.0, ACTIVATION), borders=(border,))
    assert (first.ms, first.border_ms, first.total_ms) == (1.0, 6.0, 7.0)
    assert (second.nodes, second.total_ms) == (("b",), 3.0)


def test_all_ways_that_failed_are_told() -> None:
    (reason,) = found(host("a", "Add", 1.0, Why.IS_CONSTANT(tensor="b"), Why.NO_FACTORS(), Why.IS_CONSTANT(tensor="b")))
    assert reason.ways == ("'b' is a constant", "neither operand is a constant with one number for each channel")
    assert reason.change.startswith("Only two computed tensors are added")


def test_regions_that_do_not_pay_are_listed_with_both_sums() -> None:
    small, large = (
        Why.LOSS(operations=k, first=name, machine_ms=ms, host_ms=host_ms) for k, name, ms, host_ms in ((2, "a", 3.0, 1.0), (1, "c", 9.0, 8.0))
    )
    rows = [host("a", "Conv", 0.5, small), host("b", "Conv+Relu", 0.5, small), host("c", "Conv", 8.0, large)]
    (reason,) = found(*rows, samples=4)
    assert reason.ways == (LOSING,)
    assert reason.dropped == (Dropped("c", 1, 36.0, 32.0), Dropped("a", 2, 12.0, 4.0))
    assert "place=all" in reason.change


def test_a_few_names_stand_for_many() -> None:
    assert nodes_text(["a", "b"], 3) == "a, b"
    assert nodes_text(["a", "b", "c", "d"], 2) == "a, b and 2 more"
