"""Small networks for the tests of reports, built once a module: two regions with a gate on the host between them, and one that no machine takes."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.verify.builds import build
from toolchain.report.placement import NodePlaces, place_nodes
from toolchain.spec.search_policies import EFFORT
from toolchain.tasks.stage import Job
from toolchain.verify.built import Built

n = helper.make_node


@dataclass(frozen=True)
class Case:
    """A built network, and where its nodes went."""

    job: Job
    built: Built
    placement: NodePlaces


def save(nodes: Sequence[onnx.NodeProto], shapes: tuple[Sequence[int], Sequence[int]], path: Path, layers: Sequence[str] = ()) -> Path:
    """layers: names of 3x3 weights, four channels to four. Names in the graph end in x and y."""
    rng = np.random.default_rng(3)
    weights = [numpy_helper.from_array(rng.normal(0, 0.3, (4, 4, 3, 3)).astype(np.float32), name) for name in layers]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in zip("xy", shapes, strict=True))
    graph = helper.make_graph(list(nodes), "g", [x], [y], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def split(path: Path) -> Path:
    """conv, relu, a gate that no machine computes, conv."""
    pads = {"pads": [1, 1, 1, 1]}
    nodes = [
        n("Conv", ["x", "w"], ["a"], "first", **pads),
        n("Relu", ["a"], ["b"], "active"),
        n("Sigmoid", ["b"], ["c"], "gate"),
        n("Conv", ["c", "v"], ["y"], "second", **pads),
    ]
    return save(nodes, ((1, 4, 12, 12), (1, 4, 12, 12)), path, ("w", "v"))


def nothing(path: Path) -> Path:
    """Only operators of the host."""
    nodes = [n("Softmax", ["x"], ["a"], "soft"), n("Sigmoid", ["a"], ["b"], "gate"), n("MatMul", ["b", "b"], ["y"], "product")]
    return save(nodes, ((6, 6), (6, 6)), path)


def case(target: str, model: Path, root: Path) -> Case:
    job, built, _ = build(target, str(model), root, effort=str(EFFORT))
    return Case(job, built, place_nodes(built.floating, built.partitioned, job.folder / "graph"))


def cases(folder: Path) -> dict[str, Case]:
    """By their names."""
    files = {"split": split(folder / "split.onnx"), "nothing": nothing(folder / "nothing.onnx")}
    wanted = (("split", "vta"), ("split", "dpuv3"), ("nothing", "vta"))
    return {f"{name} on {target}": case(target, files[name], folder / "build") for name, target in wanted}
