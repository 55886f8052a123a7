"""Graphs of a few operators, imported; and any model, run."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir

from tests.graph.onnx_builder import model, save
from toolchain.graph.importing.load import load_graph
from toolchain.graph.session import open_session, run_session

Array = np.ndarray
F = np.float32


def imported(
    folder: Path, nodes: Sequence[onnx.NodeProto], x: Sequence[int] = (1, 3, 4, 4), constants: Mapping[str, Array] | None = None, opset: int = 21
) -> ir.Model:
    """A graph of the input `x`, whose outputs are those of the last node."""
    return load_graph(save(model(nodes, {"x": x}, dict.fromkeys(nodes[-1].output), constants, opset), folder))


def run(given: ir.Model | onnx.ModelProto | Path, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Outputs by name, without any rewriting by ONNX Runtime."""
    stored = given if isinstance(given, Path) else (ir.to_proto(given) if isinstance(given, ir.Model) else given).SerializeToString()
    return run_session(open_session(stored, optimise=False), feeds)


def normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(F)


def node_of(given: ir.Model, kind: str) -> ir.Node:
    """The only node of an operator."""
    (found,) = [node for node in given.graph if node.op_type.split("__")[0] == kind]
    return found
