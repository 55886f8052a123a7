"""Passes one after the other: what one needs or promises is checked, and an error says in which it happened."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import onnx_ir as ir
import pytest

from tests.graph.imported import F, imported, normal
from tests.graph.onnx_builder import n
from tests.reasons import because
from toolchain.graph.integers.calls import note_reasons
from toolchain.graph.integers.functions import FUSED
from toolchain.graph.regions import REGION
from toolchain.passes.context import Context, Pass
from toolchain.passes.fold_batch_norm import FoldBatchNorm
from toolchain.passes.pipeline import PASSES
from toolchain.passes.runner import PROPERTIES, run_passes
from toolchain.passes.simplify import RemoveDead, RemoveIdentity
from toolchain.spec.errors import UserError, fail

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


@dataclass(frozen=True)
class Promises(Pass):
    """And does nothing."""

    name: ClassVar[str] = "promises"
    ensures: ClassVar[tuple[str, ...]] = ("no_identity",)

    def run(self, model: ir.Model, context: Context) -> ir.Model:  # noqa: ARG002
        return model


@dataclass(frozen=True)
class Raises(Pass):
    name: ClassVar[str] = "raises"

    def run(self, model: ir.Model, context: Context) -> ir.Model:  # noqa: ARG002
        raise fail("E0919", "this went wrong", hint="turn it", place="net.onnx")


def network(folder: Path) -> ir.Model:
    return imported(folder, [n("Identity", ["x"], ["a"], "same"), n("Relu", ["a"], ["y"], "relu")])


def test_every_stage_is_kept_in_order(tmp_path: Path) -> None:
    kept: list[tuple[int, str, int]] = []
    run_passes(
        network(tmp_path), [RemoveIdentity(), RemoveDead()], Context(), lambda number, name, model: kept.append((number, name, len(model.graph)))
    )
    assert kept == [(0, "remove_identity", 1), (1, "remove_dead", 1)]


def test_a_promise_that_is_not_kept(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^net.onnx: E0913 the pass 'promises' promises 'no_identity', but node 'same' \(Identity\) changes nothing"):
        run_passes(network(tmp_path), [Promises()], Context("net.onnx"))


def test_a_need_that_is_not_met_names_who_could_meet_it(tmp_path: Path) -> None:
    model = imported(tmp_path, [n("Add", ["x", "k"], ["y"])], constants={"k": F(1)})
    model.graph.insert_before(next(iter(model.graph)), ir.node("Constant", [], {"value_float": 1.0}, num_outputs=1, name="c"))
    with pytest.raises(UserError) as caught:
        run_passes(model, [RemoveIdentity(), FoldBatchNorm()], Context())
    assert str(caught.value) == (
        "E0913 the pass 'fold_batch_norm' needs 'no_constant_nodes', but node 'c' (Constant) is a constant; passes before it: remove_identity; "
        "'no_constant_nodes' is what fold_constants ensure"
    )


def test_an_error_tells_the_pass_and_keeps_the_rest(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        run_passes(network(tmp_path), [RemoveIdentity(), Raises()], Context())
    (told,) = caught.value.diagnostics
    assert told.message == "this went wrong (in the pass 'raises'; passes before it: remove_identity)"
    assert (told.code, told.hint, told.place) == ("E0919", "turn it", "net.onnx")
