"""Layers over the rows of a sequence run on the machine and climb the whole ladder."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.verify.builds import build
from toolchain.verify.ladder import verify_model
from toolchain.verify.reference_sample import SampleSize

n = helper.make_node
FEW = SampleSize(instructions=8, elements=1, whole=0)


def rows(folder: Path, batch: int, count: int, inner: int, outer: int) -> Path:
    """x -> linear + relu -> linear -> sum with x -> linear without a bias."""
    rng = np.random.default_rng(count)
    sizes = {"w1": (inner, outer), "b1": (outer,), "w2": (outer, inner), "b2": (inner,), "w3": (inner, 7)}
    constants = [numpy_helper.from_array((rng.normal(size=size) / 4).astype(np.float32), name) for name, size in sizes.items()]
    nodes = [
        n("MatMul", ["x", "w1"], ["p"], "first"), n("Add", ["p", "b1"], ["q"], "bias"), n("Relu", ["q"], ["r"], "relu"),
        n("MatMul", ["r", "w2"], ["s"], "second"), n("Add", ["b2", "s"], ["t"], "offset"), n("Add", ["x", "t"], ["u"], "sum"),
        n("MatMul", ["u", "w3"], ["y"], "last"),
    ]  # fmt: skip
    x, y = (helper.make_tensor_value_info(name, 1, [batch, count, size]) for name, size in (("x", inner), ("y", 7)))
    path = folder / "rows.onnx"
    onnx.save(
        helper.make_model(helper.make_graph(nodes, "rows", [x], [y], constants), opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path
    )
    return path


@pytest.mark.parametrize("target", ["vta", "dpuv3"])
@pytest.mark.parametrize("shape", [(1, 1, 16, 16), (2, 10, 32, 48), (3, 5, 3, 40)])
def test_rows_of_a_sequence_are_exact(target: str, shape: tuple[int, int, int, int], tmp_path: Path) -> None:
    _, built, samples = build(target, str(rows(tmp_path, *shape)), tmp_path / "build")
    verdict = verify_model(built, samples, FEW, lambda _: None)
    assert verdict.exact
    assert [output.differing for output in verdict.outputs] == [0]
    assert verdict.regions[0].unseen == ()
    assert {node.op_type for node in built.partitioned.graph} == {"quantize", "region0", "dequantize"}
