"""Runs of a graph in pieces: with stops between operators, so that constants may be changed, and again with a few of its inputs changed for no
more than the operators behind them.

Operators wait until a tensor is asked for: those between two stops are one model for ONNX Runtime, since opening a session for each of them takes
most of the time of a network of small operators."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from toolchain.graph.integers.functions import use_float_products
from toolchain.graph.pieces import reads_of
from toolchain.graph.rewrite import captured
from toolchain.graph.session import ONCE, Session, run_session
from toolchain.graph.store import open_model
from toolchain.graph.work import bodies_of
from toolchain.spec.arrays import Array
from toolchain.spec.on_cores import on_cores

Samples = Mapping[str, Array]

Tensors = Mapping[str, Array]
STRETCHES = 16
"""Changes that are spread evenly over a network then cost 17 / 32 of a run each."""


@dataclass
class Stepper:
    """place: the file that messages name."""

    model: ir.Model
    place: str = ""
    _values: dict[ir.Value, list[Array]] = field(default_factory=dict["ir.Value", "list[Array]"])
    _left: dict[ir.Value, int] = field(default_factory=dict["ir.Value", int])
    _waiting: list[ir.Node] = field(default_factory=list["ir.Node"])

    def feed(self, samples: Samples, count: int) -> None:
        """Sets the inputs of the graph to the first samples."""
        self._values = {value: list(samples[value.name or ""][:count]) for value in self.model.graph.inputs}
        for node in self.model.graph:
            for value in reads_of(node):
                self._left[value] = self._left.get(value, 0) + 1

    def run(self, node: ir.Node) -> None:
        """Computes an operator, with its constants as they are when `values` is next read; all that its operands need was run before."""
        self._waiting.append(node)

    def take(self, node: ir.Node, made: Sequence[Sequence[Array]]) -> None:
        """As `run`, of an operator whose results are known: by output, an array a sample; none of those that no later operator reads."""
        self._forget(reads_of(node), [value for value in dict.fromkeys(reads_of(node)) if self._left[value] == reads_of(node).count(value)])
        self._values.update((value, list(arrays)) for value, arrays in zip(node.outputs, made, strict=True) if arrays)

    @property
    def values(self) -> dict[ir.Value, list[Array]]:
        """Tensors that a later operator reads or none at all, one array a sample. Raises UserError E0910."""
        if self._waiting:
            self._compute(self._waiting)
            self._waiting = []
        return self._values

    def _compute(self, nodes: Sequence[ir.Node]) -> None:
        reads = [value for node in nodes for value in reads_of(node)]
        made = [value for node in nodes for value in node.outputs if value.name]
        operands = [value for value in dict.fromkeys(reads) if value in self._values]
        last = dict.fromkeys(value for value, count in Counter(reads).items() if self._left[value] == count)
        results = [value for value in made if value not in last]
        session = open_model(use_float_products(alone(self.model, nodes, operands, results)), place=self.place, optimise=False, threads=ONCE)
        names = {entry.name for entry in session.get_inputs()}
        feeds = [
            {value.name or "": self._values[value][number] for value in operands if value.name in names}
            for number in range(min((len(self._values[value]) for value in operands), default=1))
        ]
        found = on_cores(lambda feed: run_session(session, feed, place=self.place), feeds)
        arrays = ([made_of[name] for made_of in found] for name in (entry.name for entry in session.get_outputs()))
        self._values.update(zip(results, arrays, strict=True))
        self._forget(reads, last)

    def _forget(self, reads: Sequence[ir.Value], last: Iterable[ir.Value]) -> None:
        for value in reads:
            self._left[value] -= 1
        for value in last:
            self._values.pop(value, None)


def alone(model: ir.Model, nodes: Sequence[ir.Node], operands: Sequence[ir.Value], results: Sequence[ir.Value]) -> ir.Model:
    """A model of some operators; their constants, and those that their bodies read, are those that the graph has now."""
    reads = (value for node in nodes for value in (*node.inputs, *captured(node)))
    graph = ir.GraphView(
        inputs=operands,
        outputs=results,
        nodes=nodes,
        initializers=list(dict.fromkeys(value for value in reads if value is not None and value.is_initializer())),
        opset_imports=model.graph.opset_imports,
        name="alone",
    )
    return ir.Model(graph.clone(), ir_version=model.ir_version or 10, functions=[function.clone() for function in _called(model, nodes)])


def _called(model: ir.Model, nodes: Sequence[ir.Node]) -> list[ir.Function]:
    """The functions of calls; those that are written call no others."""
    names = dict.fromkeys(node.op_identifier() for node in _with_bodies(nodes))
    return [model.functions[name] for name in names if name in model.functions]


def _with_bodies(nodes: Iterable[ir.Node]) -> Iterator[ir.Node]:
    """Operators, and those of their control flow."""
    for node in nodes:
        yield node
        for graph, _ in bodies_of(node):
            yield from _with_bodies(graph)


@dataclass(frozen=True)
class Stretch:
    """Operators that run together. reads: tensors of the stretches before, and inputs of the network."""

    session: Session
    reads: tuple[str, ...]


@dataclass(frozen=True)
class Relay:
    """outputs: of the whole network. place: the file that messages name."""

    stretches: tuple[Stretch, ...]
    outputs: tuple[str, ...]
    place: str = ""

    def run(self, inputs: Tensors) -> Tensors:
        """Inputs, outputs, and all tensors between stretches, of one sample. Raises UserError E0910."""
        return self.rerun(inputs, inputs)

    def rerun(self, known: Tensors, changed: Tensors) -> Tensors:
        """As `run`, after a run that left `known`, with some inputs changed. Raises UserError E0910."""
        values, fresh = {**known, **changed}, set(changed)
        for each in self.stretches:
            if not fresh.isdisjoint(each.reads) or not each.reads:
                made = run_session(each.session, {name: values[name] for name in each.reads}, place=self.place)
                values |= made
                fresh |= made.keys()
        return values

    def results(self, tensors: Tensors) -> Tensors:
        """The outputs among the tensors of a run."""
        return {name: tensors[name] for name in self.outputs}


def open_relay(model: ir.Model, cost: Callable[[ir.Node], int], place: str = "") -> Relay:
    """Stretches of about the same cost. Raises UserError E0910."""
    parts = list(_stretches(list(model.graph), cost))
    needed, found = set(model.graph.outputs), list[tuple[Sequence[ir.Node], Sequence[ir.Value], Sequence[ir.Value]]]()
    for nodes in reversed(parts):
        made = {value for node in nodes for value in node.outputs}
        reads = [value for value in dict.fromkeys(value for node in nodes for value in reads_of(node)) if value not in made]
        results = [value for node in nodes for value in node.outputs if value in needed]
        needed.update(reads)
        if results:
            found.append((nodes, reads, results))
    opened = on_cores(lambda part: _stretch(alone(model, *part), place), reversed(found))
    return Relay(tuple(opened), tuple(value.name or "" for value in model.graph.outputs if not value.is_initializer()), place)


def _stretch(model: ir.Model, place: str) -> Stretch:
    session = open_model(model, place=place, optimise=False, threads=ONCE)
    return Stretch(session, tuple(entry.name for entry in session.get_inputs()))


def _stretches(nodes: Sequence[ir.Node], cost: Callable[[ir.Node], int]) -> Iterator[Sequence[ir.Node]]:
    costs = [cost(node) for node in nodes]
    part, spent, most = list[ir.Node](), 0, sum(costs) / STRETCHES
    for node, price in zip(nodes, costs, strict=True):
        part.append(node)
        spent += price
        if spent >= most:
            yield part
            part, spent = list[ir.Node](), 0
    if part:
        yield part
