"""Templates are found where their operators and conditions are, and the condition that fails is told."""

from pathlib import Path

import onnx
import onnx_ir as ir
import pytest

from tests.graph.imported import F, imported, normal
from tests.graph.onnx_builder import n
from toolchain.passes.fuse import find_match
from toolchain.passes.templates import Match, Template, read_templates
from toolchain.spec.errors import Source
from toolchain.spec.reasons import Why, text_of

CONSTANTS = {"w": normal(0, 3, 3, 1, 1), "b": normal(1, 3), "k": F(2), "six": F(6)}
CONV = """
  - name: layer
    computes: conv2d
    pattern:
      op: [Relu, Clip]
      as: activation
      optional: true
      inputs:
        - {op: Conv, as: conv, inputs: [x, w, "b?"]}
        - "*?"
        - "*?"
    where:
      - constant: [w, b]
      - rank: {x: 4}
"""
SUM = """
  - name: sum
    computes: add
    pattern: {op: Add, as: sum, commutes: true, inputs: [{op: Exp, as: first, inputs: [x]}, z]}
    where: [computed: [x, z], same_shape: [x, z]]
"""


def template(text: str) -> Template:
    (found,) = read_templates(Source("t.yaml", f"fusion:{text}"))
    return found


def last(folder: Path, *nodes: onnx.NodeProto, x: tuple[int, ...] = (1, 3, 4, 4)) -> ir.Node:
    return list(imported(folder, list(nodes), x, CONSTANTS).graph)[-1]


def test_an_optional_operator_is_taken_or_passed_over(tmp_path: Path) -> None:
    conv = n("Conv", ["x", "w", "b"], ["c"], "conv")
    for nodes, taken in (([conv], ["conv"]), ([conv, n("Relu", ["c"], ["y"], "relu")], ["relu", "conv"])):
        found = find_match(template(CONV), last(tmp_path, *nodes))
        assert isinstance(found, Match)
        assert [node.name for node in found.taken] == taken
        assert {name: [value.name for value in values] for name, values in found.tensors.items()} == {"x": ["x"], "w": ["w"], "b": ["b"]}
        assert found.tensor("z") is None


@pytest.mark.parametrize("turned", [False, True])
def test_operands_that_commute(turned: bool, tmp_path: Path) -> None:
    found = find_match(template(SUM), last(tmp_path, n("Exp", ["x"], ["e"], "exp"), n("Add", ["x", "e"] if turned else ["e", "x"], ["y"], "add")))
    assert isinstance(found, Match)
    assert found.nodes["first"].name == "exp"
    assert [value.name for value in found.tensors["z"]] == ["x"]


@pytest.mark.parametrize(
    ("nodes", "text", "reason"),
    [
        ([n("Relu", ["x"], ["y"])], CONV, ""),
        ([n("Conv", ["x", "w"], ["c"]), n("Relu", ["c"], ["r"]), n("Add", ["c", "r"], ["y"])], SUM, ""),
        ([n("Add", ["w", "k"], ["v"]), n("Mul", ["x", "k"], ["a"]), n("Conv", ["a", "v"], ["y"])], CONV, None),
        ([n("Exp", ["x"], ["e"]), n("ReduceMax", ["x"], ["m"]), n("Add", ["e", "m"], ["y"])], SUM, "the operands have different shapes"),
        ([n("Exp", ["x"], ["e"]), n("Add", ["e", "k"], ["y"])], SUM, "'k' is a constant"),
        ([n("NonZero", ["x"], ["z"]), n("Cast", ["z"], ["f"], to=1), n("Exp", ["f"], ["e"]), n("Add", ["e", "f"], ["y"])], SUM,
         "the shape of 'f' depends on the data"),
        ([n("Cast", ["x"], ["i"], to=7), n("Cast", ["i"], ["f"], to=1), n("Exp", ["x"], ["e"]), n("Add", ["e", "f"], ["y"])], SUM, None),
    ],
)  # fmt: skip
def test_the_condition_that_fails(nodes: list[onnx.NodeProto], text: str, reason: str | None, tmp_path: Path) -> None:
    """None: it fits; empty: the operators are others."""
    found = find_match(template(text), last(tmp_path, *nodes))
    if isinstance(found, Match):
        assert reason is None
    else:
        assert reason == ("" if found is None else text_of(found))


def test_ranks_and_types_are_told(tmp_path: Path) -> None:
    nodes = [n("Conv", ["x", "v"], ["y"])]
    graph = imported(tmp_path, nodes, (1, 3, 4), {"v": normal(0, 3, 3, 1)})
    assert find_match(template(CONV), next(iter(graph.graph))) == Why.WRONG_RANK(tensor="x", rank=3, wanted=4)
    whole = [n("Cast", ["x"], ["i"], to=7), n("Add", ["i", "i"], ["s"]), n("Cast", ["s"], ["y"], to=1)]
    anchor = list(imported(tmp_path, whole).graph)[1]
    assert find_match(template(SUM.replace("{op: Exp, as: first, inputs: [x]}", "x")), anchor) == Why.NOT_FLOAT(tensor="i", dtype="int64")


def test_a_tensor_between_that_others_read_is_not_taken(tmp_path: Path) -> None:
    graph = imported(tmp_path, [n("Conv", ["x", "w"], ["c"]), n("Relu", ["c"], ["r"]), n("Add", ["c", "r"], ["y"])], constants=CONSTANTS)
    relu = next(node for node in graph.graph if node.op_type == "Relu")
    assert find_match(template(CONV), relu) is None


GELU = """
  - name: halves
    computes: gelu
    pattern: {op: Mul, commutes: true, inputs: [x, half]}
    where: [value: {half: 0.1}]
"""


@pytest.mark.parametrize(("constant", "fits"), [("tenth", True), ("k", False), ("b", False)])
def test_a_constant_has_the_number_that_a_template_wants(constant: str, fits: bool, tmp_path: Path) -> None:
    given = imported(tmp_path, [n("Mul", ["x", constant], ["y"])], constants={**CONSTANTS, "tenth": F(0.1), "b": normal(1, 3, 1, 1)})
    found = find_match(template(GELU), next(iter(given.graph)))
    assert isinstance(found, Match) is fits
    assert fits or found == Why.OTHER_NUMBER(tensor=constant, wanted=0.1)
