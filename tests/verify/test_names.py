"""Names of nodes decide nothing: one that begins like another, or has spaces, is a name like any other."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.verify.builds import build
from toolchain.graph.regions import region_calls
from toolchain.passes.fuse import sources_of
from toolchain.schedule.read_region import read_region
from toolchain.verify.ladder import verify_model
from toolchain.verify.reference_sample import SampleSize

NAMES = ("conv", "conv store", "conv store y", "two words and more", "conv load")


def network(path: Path) -> None:
    """Convolutions in a row, each with a ReLU whose name has spaces as well."""
    rng, nodes, constants, last = np.random.default_rng(0), [], [], "x"
    for number, name in enumerate(NAMES):
        weight = rng.normal(0, 0.2, (16, 16, 3, 3)).astype(np.float32)
        constants.append(numpy_helper.from_array(weight, f"w{number}"))
        nodes.append(helper.make_node("Conv", [last, f"w{number}"], [f"{name}.sum"], name=name, pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"{name}.sum"], [f"{name}.y"], name=f"{name} relu"))
        last = f"{name}.y"
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 16, 8, 8]) for n in ("x", last))
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


@pytest.mark.parametrize("target", ["vta", "dpuv3"])
def test_a_correct_program_is_exact_whatever_its_nodes_are_called(target: str, tmp_path: Path) -> None:
    network(tmp_path / "net.onnx")
    _, built, samples = build(target, str(tmp_path / "net.onnx"), tmp_path / "build")
    verdict = verify_model(built, samples, SampleSize(instructions=1, elements=1, whole=0))
    assert verdict.exact, verdict
    (call,) = region_calls(built.partitioned)
    region = read_region(built.machine, built.backend(call).kernels, built.partitioned, call)
    assert [bound.nodes for bound in region.operations] == [(name, f"{name} relu") for name in NAMES]
    assert [sources_of(node) for node in built.integer.graph if node.name in NAMES] == [[name, f"{name} relu"] for name in NAMES]
