"""Parts of a model as a model of their own: some tensors, computed from others that are fed."""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field

import onnx_ir as ir

from toolchain.graph.nodes.rewrite import captured


@dataclass
class Source:
    """A sorted model to take pieces from, with its tensors and the places of its nodes looked up once."""

    model: ir.Model
    values: dict[str, ir.Value] = field(init=False)
    places: dict[ir.Node, int] = field(init=False)

    def __post_init__(self) -> None:
        nodes = list(self.model.graph)
        self.places = {node: number for number, node in enumerate(nodes)}
        self.values = {value.name or "": value for value in (*self.model.graph.inputs, *(value for node in nodes for value in node.outputs))}

    def above(self, tensor: str) -> set[str]:
        """Every tensor that a tensor is computed from."""
        found, left = set[str](), [self.values[tensor].producer()]
        while left:
            node = left.pop()
            for value in reads_of(node) if node is not None else ():
                if value.name and value.name not in found:
                    found.add(value.name)
                    left.append(value.producer())
        return found

    def operands(self, tensor: str, stop: Container[str]) -> tuple[set[str], list[ir.Node]]:
        """Going back from a tensor's maker: the tensors that are in `stop`, inputs of the model, or made by operators with subgraphs; and the
        operators between, in the order of the graph."""
        found, between = set[str](), set[ir.Node]()
        left = [self.values[tensor].producer()]
        while left:
            node = left.pop()
            if node is None or node in between:
                continue
            between.add(node)
            for value in reads_of(node):
                maker = value.producer()
                if maker is None or (value.name or "") in stop or captured(maker):
                    found.add(value.name or "")
                else:
                    left.append(maker)
        return found, sorted(between, key=self.places.__getitem__)


def reads_of(node: ir.Node) -> list[ir.Value]:
    """Operands that are no constants, those of subgraphs included."""
    return [value for value in (*node.inputs, *captured(node)) if value is not None and not value.is_initializer()]


OPERAND = "operand/"
"""Stands before the names of fed tensors."""


class Pieces:
    """Gathers pieces of one model; each has copies of its operators. Fed tensors, constants and operators that read the same are shared.

    shapes: of fed tensors that are not fed whole; tensors between have no shapes then.
    """

    def __init__(self, source: ir.Model, shapes: Mapping[str, tuple[int, ...]] | None = None) -> None:
        self._source = source
        self._shapes = shapes or {}
        self._inputs: dict[str, ir.Value] = {}
        self._constants: dict[ir.Value, ir.Value] = {}
        self._nodes: list[ir.Node] = []
        self._copies: dict[tuple[ir.Node, tuple[ir.Value | None, ...]], ir.Node] = {}
        self._results: list[ir.Value] = []

    def add(self, tensor: str, operands: Container[str], nodes: Iterable[ir.Node]) -> None:
        """A piece whose result is `tensor`: `nodes` with every operand fed."""
        known = dict[str, ir.Value]()
        for node in nodes:
            copy = self._copy(node, tuple(None if value is None else self._given(value, operands, known) for value in node.inputs))
            known |= {old.name or "": new for old, new in zip(node.outputs, copy.outputs, strict=True)}
        self._results.append(known[tensor])

    def _copy(self, node: ir.Node, given: tuple[ir.Value | None, ...]) -> ir.Node:
        """Residual networks have pieces that all begin with the same operators: computing those again for each would be quadratic."""
        if (node, given) in self._copies:
            return self._copies[node, given]
        number = len(self._results)
        copy = ir.Node(node.domain, node.op_type, given, node.attributes.values(), num_outputs=len(node.outputs), name=f"{number}/{node.name}")
        for old, new in zip(node.outputs, copy.outputs, strict=True):
            new.name, new.type = f"{number}/{old.name}" if old.name else "", old.type
            new.shape = None if self._shapes else old.shape
        self._nodes.append(copy)
        self._copies[node, given] = copy
        return copy

    def _given(self, value: ir.Value, operands: Container[str], known: dict[str, ir.Value]) -> ir.Value:
        name = value.name or ""
        if value.is_initializer():
            if value not in self._constants:
                self._constants[value] = ir.Value(name=name, const_value=value.const_value, shape=value.shape, type=value.type)
            return self._constants[value]
        if name in operands:
            shape = ir.Shape(self._shapes[name]) if name in self._shapes else value.shape
            return self._inputs.setdefault(name, ir.Value(name=f"{OPERAND}{name}", shape=shape, type=value.type))
        return known[name]

    def model(self) -> ir.Model:
        """Inputs are called OPERAND and their name; outputs are in the order of the pieces."""
        constants, inputs, opsets = list(self._constants.values()), list(self._inputs.values()), self._source.opset_imports
        graph = ir.Graph(inputs, self._results, nodes=self._nodes, initializers=constants, opset_imports=opsets, name="pieces")
        return ir.Model(graph, ir_version=self._source.ir_version or 10, functions=list(self._source.functions.values()))
