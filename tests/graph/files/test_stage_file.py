"""A stage that is read back is what was in memory: shapes and types inside functions too."""

from pathlib import Path

import onnx_ir as ir
import pytest
from onnx import helper

from tests.graph.imported import imported, normal
from toolchain.graph.files.stage_file import read_stage
from toolchain.graph.files.store import Store
from toolchain.graph.nodes.rewrite import shape_of
from toolchain.graph.regions import REGION, TARGET, region_calls, region_function
from toolchain.passes.outline import outline
from toolchain.spec.errors import UserError

n = helper.make_node


def with_region(folder: Path) -> ir.Model:
    nodes = [n("Relu", ["x"], ["a"], "relu"), n("Conv", ["a", "w"], ["b"], "conv"), n("Neg", ["b"], ["y"], "neg")]
    model = imported(folder, nodes, constants={"w": normal(0, 4, 3, 3, 3)})
    for node in model.graph:
        node.outputs[0].metadata_props["note"] = node.name or ""
    outline(model, list(model.graph)[1:2], REGION, "region0", {TARGET: "some"})
    return model


def test_inputs_of_a_region_have_shape_type_and_metadata(tmp_path: Path) -> None:
    model = read_stage(Store(tmp_path / "s").save("one", with_region(tmp_path)))
    (call,) = region_calls(model)
    function = region_function(model, call)
    assert [(value.name, shape_of(value), value.dtype) for value in function.inputs] == [
        ("a", (1, 3, 4, 4), ir.DataType.FLOAT),
        ("w", (4, 3, 3, 3), ir.DataType.FLOAT),
    ]
    assert function.inputs[0].metadata_props["note"] == "relu"
    assert shape_of(next(iter(function)).outputs[0]) == (1, 4, 2, 2)
    assert (call.domain, call.metadata_props[TARGET], function.name) == (REGION, "some", "region0")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none.onnx: E0001 cannot read the model: No such file"):
        read_stage(tmp_path / "none.onnx")
