"""Nodes, constants and parameters of a graph as layers add them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from toolchain.models.operators import Layer, Shape
from toolchain.spec.arrays import Array


@dataclass
class GraphNodes:
    """shapes: of every tensor that is no parameter and no constant. parameters: shapes of those that get values later."""

    shapes: dict[str, Shape]
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    parameters: dict[str, Shape] = field(default_factory=dict[str, Shape])
    constants: list[onnx.TensorProto] = field(default_factory=list[onnx.TensorProto])

    def last(self, kind: str, layer: Layer, inputs: Sequence[str] | None = None, /, **attributes: Any) -> None:
        """The node of a layer's own result; on the layer's inputs where none are given."""
        self.nodes.append(helper.make_node(kind, layer.inputs if inputs is None else inputs, [layer.name], layer.name, **attributes))

    def inner(self, kind: str, name: str, inputs: Sequence[str], shape: Shape, /, **attributes: Any) -> str:
        """A node of a layer of several; answers with its result, which is called as the node is."""
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attributes))
        self.shapes[name] = shape
        return name

    def several(self, kind: str, name: str, inputs: Sequence[str], results: Mapping[str, Shape], /, **attributes: Any) -> tuple[str, ...]:
        """A node of several results; answers with their names."""
        self.nodes.append(helper.make_node(kind, inputs, list(results), name, **attributes))
        self.shapes |= results
        return tuple(results)

    def own(self, prefix: str, shapes: Mapping[str, Shape]) -> Iterator[str]:
        """Declares parameters and answers with their names."""
        for name, shape in shapes.items():
            full = f"{prefix}.{name}"
            self.parameters[full] = shape
            yield full

    def constant(self, name: str, value: Array | np.float32) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name
