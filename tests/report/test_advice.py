"""Every reason that the toolchain gives has words of its own on what to change."""

import ast
from pathlib import Path

import pytest

from toolchain.passes.fuse import UNKNOWN
from toolchain.passes.placement import Loss, loss_text
from toolchain.passes.templates import default_templates
from toolchain.report.advice import ADVICE, CUT, FAMILIES, OTHER, activations, advise, told

ROOT = Path(__file__).resolve().parents[2] / "toolchain"
SOURCES = {
    "passes/bindings.py": (),
    "passes/matching.py": (),
    "passes/leave.py": ("_unseen",),
    "schedule/regions/views.py": ("unviewable",),
    "schedule/offload.py": ("_uncomputed", "_unshuffled", "_misplaced", "_claimed", "_unmerged"),
}
"""Modules whose functions return reasons as texts, and which functions, all where none is named."""
PLAIN = ("relu", "leaky", "clip", "not an operation", "an output", "the attribute ", "the machine has no kernel for ")
"""Texts that are no reasons, or advised on as the machine's own limit."""


def texts(tree: ast.AST) -> list[str]:
    """Texts that are returned or chosen from, names in them as a quoted word."""
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Return | ast.Assign | ast.IfExp | ast.ListComp):
            values = [node.body, node.orelse] if isinstance(node, ast.IfExp) else [node.elt] if isinstance(node, ast.ListComp) else [node.value]
            found += [text for value in values if (text := literal(value))]
    return found


def literal(value: ast.expr | None) -> str:
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return value.value
    if isinstance(value, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "4" for part in value.values)
    return ""


def reasons() -> list[str]:
    found: list[str] = []
    for name, functions in SOURCES.items():
        tree = ast.parse((ROOT / name).read_text())
        wanted = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and (not functions or node.name in functions)]
        found += [text for node in wanted for text in texts(node)]
    return [text for text in dict.fromkeys(found) if " " in text and not text.startswith(PLAIN)]


def test_reasons_are_found_in_the_code() -> None:
    assert len(reasons()) > 30
    assert "the concat is not over channels" in reasons()


@pytest.mark.parametrize("reason", reasons())
def test_each_has_advice_of_its_own(reason: str) -> None:
    assert advise(reason, "Conv", "some", default_templates()) != OTHER.format(machine="some")


def test_each_advice_can_be_reached() -> None:
    samples = [pattern.replace("*", "4") for pattern, _ in ADVICE]
    for (_, change), sample in zip(ADVICE, samples, strict=True):
        assert advise(sample, "Conv", "some", default_templates()) == change.format(activations="Relu, Clip or LeakyRelu", machine="some")


def test_an_operator_without_a_template_is_told_by_its_family() -> None:
    templates = default_templates()
    assert activations(templates) == ["Relu", "Clip", "LeakyRelu"]
    assert "Relu, Clip or LeakyRelu" in advise(UNKNOWN, "HardSwish", "some", templates)
    assert told(UNKNOWN, "HardSwish", "some") == "some computes no such activation"
    assert advise(UNKNOWN, "NonMaxSuppression", "some", templates) == CUT
    assert told(UNKNOWN, "NonMaxSuppression", "some") == "some computes no such operator like NonMaxSuppression"
    operators = [name for _, names, _ in FAMILIES for name in names.split()]
    assert len(set(operators)) == len(operators)


def test_reasons_that_differ_by_names_read_alike() -> None:
    one, other = (told(f"'{name}' has 3 axes, not 4", "Add", "some") for name in "ab")
    assert one == other == "a tensor has 3 axes, not 4"
    assert told("kernel 'pool' cannot do this: the window is large", "Add", "some") == "as pool: the window is large"
    assert "place=all" in advise(loss_text(Loss(2, "a", 2.0, 1.0)), "Conv", "some", ())
