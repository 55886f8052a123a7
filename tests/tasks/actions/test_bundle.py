"""What is said while the regions of a bundle are compiled."""

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import toolchain
from tests.api.test_compile import model


def test_every_region_and_operation_is_counted(tmp_path: Path) -> None:
    """Two convolutions with an operator of the host's between them."""
    weight = numpy_helper.from_array(np.random.default_rng(0).normal(0, 0.3, (16, 16, 1, 1)).astype(np.float32), "w")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="first"),
        helper.make_node("Erf", ["a"], ["b"], name="host"),
        helper.make_node("Conv", ["b", "w"], ["y"], name="second"),
    ]
    proto = model({"x": (TensorProto.FLOAT, [1, 16, 8, 8])}, nodes, {"y": TensorProto.FLOAT})
    proto.graph.initializer.append(weight)
    said: list[str] = []
    toolchain.compile(proto, "vta", place="all", folder=tmp_path, say=said.append)
    told = [text.partition(": ")[2] for text in said]
    assert [text for text in told if text.startswith("region")] == [
        "region 1 of 2: operation 1 of 1, first",
        "region 2 of 2: operation 1 of 1, second",
        "region 1 of 2: its program",
        "region 2 of 2: its program",
    ]
    assert [text for text in told if text.startswith("pass 1 of")]
    assert told[-1] == "writing the bundle"
