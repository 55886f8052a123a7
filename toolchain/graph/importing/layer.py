"""One fused layer that is being written out: its operands and attributes, what inference tells of tensors, and the nodes and constants so far."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from toolchain.graph.importing.foreign_operators import Writer
from toolchain.spec.arrays import Array


class Known(NamedTuple):
    """The type and shape of a tensor, by inference. shape: None for an extent that is open."""

    type: int
    shape: tuple[int | None, ...]


@dataclass(frozen=True)
class Facts:
    """tensors: by name; those of which nothing is known are not there. makers: the kind of the operator that makes a tensor. counts: whole numbers
    that are constant, of few elements."""

    tensors: Mapping[str, Known]
    makers: Mapping[str, str]
    counts: Mapping[str, Array] = field(default_factory=dict[str, Array])


class Layer(Writer):
    """Collects what stands for one fused layer."""

    def __init__(self, node: onnx.NodeProto, facts: Facts) -> None:
        super().__init__(node)
        self.facts, self.constants = facts, list[onnx.TensorProto]()
        self.given: dict[str, Any] = {a.name: helper.get_attribute_value(a) for a in node.attribute}

    def operand(self, number: int) -> str:
        """The name of an operand; empty where there is none."""
        return self.node.input[number] if number < len(self.node.input) else ""

    def has(self, *numbers: int) -> bool:
        return any(self.operand(number) for number in numbers)

    def rank(self, name: str) -> int | None:
        return len(self.facts.tensors[name].shape) if name in self.facts.tensors else None

    def element_type(self, name: str) -> int:
        """An element type of ONNX; 0 where it is not known."""
        return self.facts.tensors[name].type if name in self.facts.tensors else TensorProto.UNDEFINED

    def hands_out(self, *numbers: int) -> bool:
        """Whether the node has one of these results."""
        return any(number < len(self.node.output) and bool(self.node.output[number]) for number in numbers)

    def constant(self, word: str, value: object, dtype: type[np.generic] = np.float32) -> str:
        name = f"{self.node.output[0]}/{word}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def split(self, name: str, parts: Sequence[str], word: str, axis: int) -> None:
        """Equal parts of a tensor along an axis."""
        given = self.node.name or self.node.output[0]
        self.nodes.append(helper.make_node("Split", [name], parts, f"{given}/{word}", axis=axis, num_outputs=len(parts)))

    def total(self, names: Sequence[str], word: str, output: str = "") -> str:
        """The sum of all tensors that are there."""
        first, *others = filter(None, names)
        for number, other in enumerate(others):
            first = self.add("Add", [first, other], f"{word}{number}", output if number == len(others) - 1 else "")
        return first


Rule = Callable[[Layer], bool]
"""Adds the nodes; whether it could."""
