"""One node on its way to a newer operator set: its attributes are taken off, inputs and neighbours put on."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from toolchain.graph.importing.opsets.known import Known
from toolchain.graph.nodes.node_text import node_text
from toolchain.spec.arrays import Array
from toolchain.spec.errors import UserError, fail

REAL = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE)


@dataclass(frozen=True)
class Names:
    """The names of a whole model. taken: by tensors and nodes; grows with every new one. read: tensors that a node reads, or that a graph gives."""

    taken: set[str]
    read: frozenset[str]
    used: Counter[str] = field(default_factory=Counter[str])

    def fresh(self, wanted: str) -> str:
        """`wanted`, or `wanted.1` and so on, whichever is free."""
        name = wanted
        while name in self.taken:
            self.used[wanted] += 1
            name = f"{wanted}.{self.used[wanted]}"
        self.taken.add(name)
        return name


@dataclass(frozen=True)
class Journey:
    """The file, the operator set that it is written for, and the one that it is brought to: as messages name them."""

    path: Path
    origin: int
    target: int


@dataclass(frozen=True, eq=False)
class Site:
    """A node that adapters change in place, with the nodes and constants that come to stand around it.

    version: the operator set that the node is in by now.
    """

    node: onnx.NodeProto
    version: int
    known: Known
    names: Names
    journey: Journey
    before: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    after: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    constants: list[onnx.TensorProto] = field(default_factory=list[onnx.TensorProto])

    def refuse(self, reason: str, hint: str = "") -> UserError:
        """E0906 that names the node and both operator sets."""
        text = f"{node_text(self.node)}: no equal form of operator set {self.journey.origin} in {self.journey.target}: {reason}"
        return fail("E0906", text, hint=hint, place=str(self.journey.path))

    def take(self, name: str) -> onnx.AttributeProto | None:
        """The attribute, which the node then no longer has; None where it is left out."""
        for number, attribute in enumerate(self.node.attribute):
            if attribute.name == name:
                found = onnx.AttributeProto()
                found.CopyFrom(attribute)
                del self.node.attribute[number]
                return found
        return None

    def take_int(self, name: str, default: int) -> int:
        found = self.take(name)
        return default if found is None else found.i

    def take_float(self, name: str) -> float | None:
        found = self.take(name)
        return None if found is None else found.f

    def take_ints(self, name: str) -> list[int] | None:
        found = self.take(name)
        return None if found is None else list(found.ints)

    def integer(self, name: str, default: int) -> int:
        """The number of an attribute, which stays."""
        return next((attribute.i for attribute in self.node.attribute if attribute.name == name), default)

    def text(self, name: str, default: str = "") -> str:
        """The text of an attribute, which stays."""
        return next((attribute.s.decode(errors="replace") for attribute in self.node.attribute if attribute.name == name), default)

    def put(self, **attributes: Any) -> None:
        """Sets attributes, those that are there already included."""
        for name, value in attributes.items():
            self.take(name)
            self.node.attribute.append(helper.make_attribute(name, value))

    def constant(self, array: Array, hint: str) -> str:
        """The name of a new constant."""
        name = self.names.fresh(f"{self._label}.{hint}")
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def whole(self, values: Sequence[int] | int, hint: str) -> str:
        """The name of a new int64 constant: a list, or one number without dimensions."""
        return self.constant(np.asarray(values, np.int64), hint)

    def scalar(self, value: float, like: str, hint: str) -> str:
        """The name of a number without dimensions, of the real type of the tensor `like`."""
        if not self.known.type_of(like):
            return self.insert("CastLike", [self.constant(np.asarray(value, np.float32), hint), like])
        with np.errstate(over="ignore"):
            return self.constant(np.asarray(value, np.float32).astype(self.real_type(like)), hint)

    def real_type(self, name: str) -> np.dtype[Any]:
        """The type of a tensor that old operator sets want to be of real numbers. Raises UserError E0906 for another."""
        kind = self.known.type_of(name)
        if kind not in REAL:
            raise self.refuse(f"the tensor '{name}' is not known to hold real numbers")
        return helper.tensor_dtype_to_np_dtype(kind)

    def insert(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Puts a node before this one. Returns the name of its output."""
        return self._add(self.before, kind, inputs, "", attributes)

    def append(self, kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> None:
        """Puts a node after this one, which makes the tensor `output`."""
        self._add(self.after, kind, inputs, output, attributes)

    def reroute(self) -> tuple[str, str]:
        """Lets the node make a new tensor. Returns its name and that of the first output it made until then."""
        outer = self.node.output[0]
        self.node.output[0] = self.names.fresh(f"{self._label}.inner")
        return self.node.output[0], outer

    def wire(self, *inputs: str) -> None:
        """Sets all inputs; those left out at the end go."""
        given = list(inputs)
        while given and not given[-1]:
            given.pop()
        del self.node.input[:]
        self.node.input.extend(given)

    def given(self, number: int) -> str:
        """An input by number; an empty name where it is left out."""
        return self.node.input[number] if number < len(self.node.input) else ""

    @property
    def _label(self) -> str:
        return self.node.name or next(iter(self.node.output), "")

    def _add(self, place: list[onnx.NodeProto], kind: str, inputs: Sequence[str], output: str, attributes: dict[str, Any]) -> str:
        name = self.names.fresh(f"{self._label}.{kind.lower()}")
        place.append(helper.make_node(kind, inputs, [output or name], name, **attributes))
        return output or name


Adapter = Callable[[Site], None]
"""Rewrites the node of a site, in place. Raises UserError E0906 where no equal form exists."""
