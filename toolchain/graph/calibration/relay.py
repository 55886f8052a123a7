"""A network opened in stretches, so that it runs again with a few of its inputs changed for no more than the operators behind them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from toolchain.graph.calibration.stepping import alone
from toolchain.graph.pieces import reads_of
from toolchain.graph.session import Session, run_session
from toolchain.graph.store import open_model
from toolchain.spec.arrays import Array

Tensors = Mapping[str, Array]
STRETCHES = 16
"""Changes that are spread evenly over a network then cost 17 / 32 of a run each."""


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
    needed, opened = set(model.graph.outputs), list[Stretch]()
    for nodes in reversed(parts):
        made = {value for node in nodes for value in node.outputs}
        reads = [value for value in dict.fromkeys(value for node in nodes for value in reads_of(node)) if value not in made]
        results = [value for node in nodes for value in node.outputs if value in needed]
        needed.update(reads)
        if not results:
            continue
        session = open_model(alone(model, nodes, reads, results), place=place, optimise=False)
        opened.append(Stretch(session, tuple(entry.name for entry in session.get_inputs())))
    return Relay(tuple(reversed(opened)), tuple(value.name or "" for value in model.graph.outputs if not value.is_initializer()), place)


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
