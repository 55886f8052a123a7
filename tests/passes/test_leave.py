"""What the machine does not take is left to the host: the network computes the same, and an operation stays without its activation."""

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from tests.graph.imported import F, imported, node_of, normal, run
from tests.graph.onnx_builder import n
from tests.reasons import against, said
from toolchain.graph.equivalence import STEP
from toolchain.graph.nodes import REASON
from toolchain.graph.quantisation.ranges import Spread
from toolchain.graph.quantisation.table import SeenTensor, Table
from toolchain.operations.library import builtin_kinds
from toolchain.passes.context import Context
from toolchain.passes.fuse import INNER, SOURCES, Fuse
from toolchain.passes.leave import WIDENED, leave_border_activations, leave_calls, leave_unseen
from toolchain.passes.pipeline import run_passes

KINDS = builtin_kinds()
ACTIVE = {
    "Relu": n("Relu", ["a"], ["y"], "active"),
    "LeakyRelu": n("LeakyRelu", ["a"], ["y"], "active", alpha=0.2),
    "Clip": n("Clip", ["a", "low", "high"], ["y"], "active"),
}
FIRST = {
    "conv2d": n("Conv", ["x", "w"], ["a"], "first"),
    "add": n("Add", ["x", "x"], ["a"], "first"),
}


def fused(folder: Path, *nodes: object, **limits: float) -> ir.Model:
    constants = {"w": normal(0, 3, 3, 1, 1), "low": F(limits.get("low", -0.5)), "high": F(limits.get("high", 1.5))}
    return run_passes(imported(folder, list(nodes), constants=constants), [Fuse()], Context())  # type: ignore[arg-type]


def seen(**largest: float) -> Table:
    """Values of which nearly all are of one size."""
    tensors = {name: SeenTensor(Spread(value, ((int(508 + 4 * np.floor(np.log2(value))), 10**6),)), ()) for name, value in largest.items()}
    return Table(8, tensors)


@pytest.mark.parametrize("kind", FIRST)
@pytest.mark.parametrize("active", ACTIVE)
def test_an_operation_is_kept_without_its_activation(active: str, kind: str, tmp_path: Path) -> None:
    graph, x = fused(tmp_path, FIRST[kind], ACTIVE[active]), {"x": normal(1, 1, 3, 4, 4) * F(3)}
    wanted = run(graph, x)["y"]
    leave_calls(graph, {"first": against("it cannot")}, seen(a=1.0), KINDS)
    np.testing.assert_array_equal(run(graph, x)["y"], wanted)
    plain, left = graph.graph
    assert (plain.op_type, plain.name, plain.outputs[0].name) == (kind, "first", "a")
    assert REASON not in plain.metadata_props
    assert plain.metadata_props[SOURCES] == "first"
    assert (left.op_type, left.name, said(left)) == (active, "active", "it cannot")


def test_an_operation_without_an_activation_goes_whole(tmp_path: Path) -> None:
    graph = fused(tmp_path, n("Conv", ["x", "w"], ["y"], "first"))
    leave_calls(graph, {"first": against("it cannot"), "other": against("nor this")}, seen(y=1.0), KINDS)
    assert said(node_of(graph, "conv2d")) == "it cannot"


def test_what_was_left_before_keeps_its_reason(tmp_path: Path) -> None:
    graph = fused(tmp_path, n("Conv", ["x", "w"], ["y"], "first"))
    for reason in ("the first", "the second"):
        leave_calls(graph, {"first": against(reason)}, seen(y=1.0), KINDS)
    assert said(node_of(graph, "conv2d")) == "the first"


@pytest.mark.parametrize(("low", "variant"), [(-16.0, "conv2d"), (0.0, "conv2d__relu")])
@pytest.mark.parametrize(("largest", "widened"), [(4.0, True), (100.0, False)])
def test_the_range_of_a_quantised_model_s_integers_is_widened_where_it_is_not_reached(
    low: float, variant: str, largest: float, widened: bool, tmp_path: Path
) -> None:
    """Openly: the range that it was is written down. A zero below which nothing was stored stays."""
    graph = fused(tmp_path, FIRST["conv2d"], ACTIVE["Clip"], low=low, high=15.875)
    node = node_of(graph, "conv2d")
    node.outputs[0].metadata_props[STEP] = (0.125).hex()
    leave_calls(graph, {"first": against("no clip here")}, seen(**{node.metadata_props[INNER]: largest}), KINDS)
    if not widened:
        assert [each.op_type for each in graph.graph] == ["conv2d", "Clip"]
        return
    (left,) = graph.graph
    assert left.op_type == variant
    assert left.metadata_props[WIDENED] == f"{low:g} to 15.875"
    assert REASON not in left.metadata_props


def test_a_clip_of_the_model_s_own_is_never_widened(tmp_path: Path) -> None:
    graph = fused(tmp_path, FIRST["conv2d"], ACTIVE["Clip"], high=6)
    leave_calls(graph, {"first": against("no clip here")}, seen(a=0.1), KINDS)
    assert [each.op_type for each in graph.graph] == ["conv2d", "Clip"]


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (Table(0, {}, failure="it did not run"), "there are no ranges: it did not run"),
        (Table(8, {"x": seen(x=1.0).tensors["x"]}, ("y",)), "a calibration sample made NaN or infinity of 'y'"),
        (Table(0, seen(x=1.0).tensors), "the quantised model declares no range of 'y'"),
        (Table(8, seen(x=1.0).tensors), ""),
        (seen(x=1.0, y=1.0), ""),
    ],
)
def test_tensors_without_a_range(table: Table, reason: str, tmp_path: Path) -> None:
    graph = fused(tmp_path, n("Conv", ["x", "w"], ["y"], "first"))
    leave_unseen(graph, table, KINDS)
    assert said(node_of(graph, "conv2d")) == reason


def test_an_activation_behind_the_host_stays_there(tmp_path: Path) -> None:
    """Behind an operation of the machine it goes along."""
    nodes = [
        n("Sin", ["x"], ["t"], "tanh"),
        n("LeakyRelu", ["t"], ["a"], "one"),
        n("Conv", ["a", "w"], ["b"], "conv"),
        n("MaxPool", ["b"], ["c"], "pool", kernel_shape=[2, 2]),
        n("Relu", ["c"], ["y"], "two"),
    ]
    graph, x = fused(tmp_path, *nodes), {"x": normal(1, 1, 3, 4, 4)}
    wanted = run(graph, x)["y"]
    leave_border_activations(graph, KINDS)
    assert [node.op_type for node in graph.graph] == ["Sin", "LeakyRelu", "conv2d", "max_pool", "average_pool__relu"]
    np.testing.assert_array_equal(run(graph, x)["y"], wanted)
    assert said(node_of(graph, "LeakyRelu")) == "its operand is made on the host"
