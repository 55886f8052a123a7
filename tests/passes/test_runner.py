"""Passes one after the other: what one needs or promises is checked, and an error says in which it happened."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import onnx_ir as ir
import pytest
from onnx import helper

from tests.graph.imported import F, imported
from toolchain.passes.base import Pass
from toolchain.passes.context import Context
from toolchain.passes.fold_batch_norm import FoldBatchNorm
from toolchain.passes.remove_dead import RemoveDead
from toolchain.passes.remove_identity import RemoveIdentity
from toolchain.passes.runner import run_passes
from toolchain.spec.errors import UserError, fail

n = helper.make_node


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
