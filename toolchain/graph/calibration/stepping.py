"""Runs a graph operator by operator on several samples, so that constants may be changed between one operator and the next."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from toolchain.graph.equivalence.pieces import reads_of
from toolchain.graph.nodes.rewrite import captured
from toolchain.graph.running.graph_session import open_model
from toolchain.graph.running.session import run_session

Array = np.typing.NDArray[Any]
Samples = Mapping[str, Array]


@dataclass
class Stepper:
    """values: of tensors that a later operator reads, one array a sample. place: the file that messages name."""

    model: ir.Model
    place: str = ""
    values: dict[ir.Value, list[Array]] = field(default_factory=dict["ir.Value", "list[Array]"])
    _left: dict[ir.Value, int] = field(default_factory=dict["ir.Value", int])

    def feed(self, samples: Samples, count: int) -> None:
        """Sets the inputs of the graph to the first samples."""
        self.values = {value: list(samples[value.name or ""][:count]) for value in self.model.graph.inputs}
        for node in self.model.graph:
            for value in reads_of(node):
                self._left[value] = self._left.get(value, 0) + 1

    def run(self, node: ir.Node) -> None:
        """Computes the results of one operator, and forgets operands that no later one reads. Raises UserError E0910."""
        operands = list(dict.fromkeys(reads_of(node)))
        session = open_model(_alone(self.model, node, operands), place=self.place, optimise=False)
        names = {entry.name for entry in session.get_inputs()}
        made: list[list[Array]] = [[] for value in node.outputs if value.name]
        for number in range(min((len(self.values[value]) for value in operands), default=1)):
            feeds = {value.name or "": self.values[value][number] for value in operands if value.name in names}
            for held, array in zip(made, run_session(session, feeds, place=self.place).values(), strict=True):
                held.append(array)
        self.values.update(zip((value for value in node.outputs if value.name), made, strict=True))
        self._forget(reads_of(node))

    def _forget(self, operands: Iterable[ir.Value]) -> None:
        for value in operands:
            self._left[value] -= 1
            if not self._left[value]:
                self.values.pop(value, None)


def _alone(model: ir.Model, node: ir.Node, operands: Iterable[ir.Value]) -> ir.Model:
    """A model of one operator; its constants, and those that its bodies read, are those that the graph has now."""
    graph = ir.GraphView(
        inputs=list(operands),
        outputs=[value for value in node.outputs if value.name],
        nodes=[node],
        initializers=list(dict.fromkeys(value for value in (*node.inputs, *captured(node)) if value is not None and value.is_initializer())),
        opset_imports=model.graph.opset_imports,
        name="alone",
    )
    return ir.Model(graph.clone(), ir_version=model.ir_version or 10, functions=[function.clone() for function in _called(model, node)])


def _called(model: ir.Model, node: ir.Node) -> list[ir.Function]:
    """The function of a call; those that are written call no others."""
    found = model.functions.get(node.op_identifier())
    return [] if found is None else [found]
