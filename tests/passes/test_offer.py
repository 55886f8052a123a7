"""What one machine leaves is offered to the next, as whole as it was."""

from dataclasses import replace
from pathlib import Path

import onnx_ir as ir

from tests.graph.onnx_builder import save
from tests.passes.test_quantize import NARROW, branchy, samples
from tests.reasons import against
from toolchain.graph.files.store import Store
from toolchain.graph.integers.calls import REASON, refusals_of
from toolchain.graph.integers.functions import FUSED, is_integer, kind_of
from toolchain.operations.library import builtin_kinds
from toolchain.passes.build import build_graph, calibration_table, default_pipeline
from toolchain.passes.context import Context, Device
from toolchain.passes.leave import absorb_activations, release_activations
from toolchain.passes.offer import Offer
from toolchain.passes.pipeline import Pipeline


def left(folder: Path) -> tuple[ir.Model, Context]:
    """branchy quantised for a machine without convolutions."""
    path, device = save(branchy(), folder), Device("one", lambda node: against("it has none" if kind_of(node) == "conv2d" else ""))
    table = calibration_table(path, {}, samples())
    context = Context(str(path), numerics=NARROW, table=table, device=device, policy="all", further=True)
    model = build_graph(path, {}, context, Store(folder / "stages"), Pipeline(default_pipeline().passes[:-1]))
    return model, replace(context, device=Device("two", lambda _: ()), before=(device,), kinds=builtin_kinds())


def test_layers_are_whole_again_and_say_who_refused_them(tmp_path: Path) -> None:
    model, context = left(tmp_path)
    assert not [node for node in model.graph if node.domain == FUSED and "__" in node.op_type]
    Offer().run(model, context)
    fused = {node.name: node for node in model.graph if node.domain == FUSED}
    assert {name: node.op_type for name, node in fused.items()} == {
        "conv1": "conv2d__relu", "depthwise": "conv2d__clip", "conv3": "conv2d__leaky"
    }  # fmt: skip
    assert all(refusals_of(node) == {"one": against("it has none")} and REASON not in node.metadata_props for node in fused.values())
    assert all(REASON not in node.metadata_props for node in model.graph if not is_integer(node))


def reads(model: ir.Model) -> dict[str, str]:
    """By conversion to integers, the tensor that it converts."""
    return {node.name or "": node.inputs[0].name or "" for node in model.graph if kind_of(node) == "quantize" and node.inputs[0] is not None}


def test_conversions_give_activations_back_and_take_them_again(tmp_path: Path) -> None:
    """Where nobody takes the layer, the conversion to integers does its activation again."""
    model, _ = left(tmp_path)
    absorbed = reads(model)
    release_activations(model)
    assert {name for name, tensor in reads(model).items() if tensor != absorbed[name]} == {"r2.quantize"}
    absorb_activations(model)
    assert reads(model) == absorbed
