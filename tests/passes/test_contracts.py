"""Every property is noticed where it does not hold, and passes keep those that they ensure."""

from pathlib import Path

import onnx_ir as ir
import pytest
from onnx import helper

from tests.graph.imported import F, imported, normal
from tests.reasons import because
from toolchain.graph.integers.calls import note_reasons
from toolchain.graph.integers.functions import FUSED
from toolchain.graph.regions import REGION
from toolchain.passes.contracts import PROPERTIES
from toolchain.passes.registry import PASSES

n = helper.make_node
VECTORS = {name: normal(k, 3) ** 2 + F(1) for k, name in enumerate("stmv")} | {"w": normal(9, 3, 3, 1, 1)}


def graph_of(folder: Path, *nodes: object) -> ir.Model:
    return imported(folder, list(nodes), constants=VECTORS)  # type: ignore[arg-type]


def marked(model: ir.Model, reason: str) -> ir.Model:
    for node in model.graph:
        note_reasons(node, because(reason))
    return model


def constant_inside(folder: Path) -> ir.Model:
    model = graph_of(folder, n("Relu", ["x"], ["y"], "r"))
    model.graph.insert_before(next(iter(model.graph)), ir.node("Constant", [], {"value_float": 1.0}, num_outputs=1, name="c"))
    return model


def fused_inside(folder: Path) -> ir.Model:
    model = graph_of(folder, n("Relu", ["x"], ["y"], "r"))
    model.graph.insert_before(next(iter(model.graph)), ir.node("conv2d", [], domain=FUSED, num_outputs=1, name="c"))
    return model


def region_inside(folder: Path) -> ir.Model:
    model = marked(graph_of(folder, n("Relu", ["x"], ["y"], "r")), "because")
    model.graph.insert_before(next(iter(model.graph)), ir.node("region0", [], domain=REGION, num_outputs=1, name="c"))
    return model


NORM = n("BatchNormalization", ["a", *"stmv"], ["y"], "norm")
BROKEN = {
    "no_constant_nodes": (constant_inside, "node 'c' (Constant) is a constant"),
    "no_batch_norm": (lambda folder: graph_of(folder, n("Conv", ["x", "w"], ["a"]), NORM), "node 'norm' (BatchNormalization) is left"),
    "no_identity": (
        lambda folder: graph_of(folder, n("Identity", ["x"], ["a"], "i"), n("Relu", ["a"], ["y"])),
        "node 'i' (Identity) changes nothing",
    ),
    "no_dead_nodes": (lambda folder: graph_of(folder, n("Exp", ["x"], ["a"], "e"), n("Relu", ["x"], ["y"])), "node 'e' (Exp) is read by nobody"),
    "fused": (lambda folder: graph_of(folder, n("Relu", ["x"], ["y"], "r")), "node 'r' (Relu) was not looked at"),
    "quantized": (fused_inside, "node 'c' (conv2d) is still in floating point and does not say why"),
    "partitioned": (fused_inside, "node 'c' (conv2d) does not say where it runs"),
}
KEPT = {
    "no_constant_nodes": lambda folder: graph_of(folder, n("Relu", ["x"], ["y"])),
    "no_batch_norm": lambda folder: graph_of(folder, n("Relu", ["x"], ["a"]), NORM),
    "no_identity": lambda folder: graph_of(folder, n("Relu", ["x"], ["y"])),
    "no_dead_nodes": lambda folder: graph_of(folder, n("Relu", ["x"], ["y"])),
    "fused": lambda folder: marked(graph_of(folder, n("Relu", ["x"], ["y"])), "because"),
    "quantized": lambda folder: marked(fused_inside(folder), "because"),
    "partitioned": region_inside,
}


def test_there_is_a_case_for_every_property_and_every_word_of_a_pass_is_one() -> None:
    assert set(BROKEN) == set(KEPT) == set(PROPERTIES)
    assert {name for kind in PASSES.values() for name in (*kind.requires, *kind.ensures)} <= set(PROPERTIES)


@pytest.mark.parametrize("name", BROKEN)
def test_a_property_that_does_not_hold(name: str, tmp_path: Path) -> None:
    make, words = BROKEN[name]
    assert PROPERTIES[name](make(tmp_path)) == words


@pytest.mark.parametrize("name", KEPT)
def test_a_property_that_holds(name: str, tmp_path: Path) -> None:
    assert PROPERTIES[name](KEPT[name](tmp_path)) == ""
