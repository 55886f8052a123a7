"""Tensors that one step of a network hands to the next: runs of steps in which an output becomes the input of the step after; and states whose
elements only stand in another order within a step, such as caches by heads that layers read as sequences: moves behind the input of a state, and
before its output, that undo each other, so that the tensor between them can go round in their place."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import onnx_ir as ir

from toolchain.graph.rewrite import ints, is_operator, known_shape
from toolchain.spec.arrays import Array

Tensors = Mapping[str, Array]
NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Sequences:
    """Samples of a network with states. given: [sequences, steps, *shape] by input that is no state. pairs: by state's input, the output that becomes
    it. starts: by state's input, [*shape] before the first step."""

    given: Tensors
    pairs: Mapping[str, str]
    starts: Tensors

    @property
    def count(self) -> int:
        """The number of sequences, of which each has `steps` steps."""
        return min((len(array) for array in self.given.values()), default=1)

    @property
    def steps(self) -> int:
        return min((array.shape[1] for array in self.given.values()), default=1)

    def sequence(self, number: int) -> list[dict[str, Array]]:
        """The inputs of each step of one sequence, states left out."""
        return [{name: np.asarray(array[number, step]) for name, array in self.given.items()} for step in range(self.steps)]


Step = Callable[[Tensors], Tensors]
"""One step of a network: outputs by name, of all inputs by name, states among both."""


def each_step(run: Step, sequences: Sequences, number: int) -> Iterator[tuple[Tensors, Tensors]]:
    """All inputs and all outputs of each step of one sequence, states handed on. Raises as `run`."""
    states = dict(sequences.starts)
    for given in sequences.sequence(number):
        inputs = {**given, **states}
        outputs = run(inputs)
        yield inputs, outputs
        states = {name: outputs[output] for name, output in sequences.pairs.items()}


def unrolled(run: Step, sequences: Sequences) -> dict[str, Array]:
    """Every step of every sequence as a sample of its own, with the states that the network itself made: [sequences * steps, *shape] by input."""
    found: dict[str, list[Array]] = {}
    for number in range(sequences.count):
        for inputs, _ in each_step(run, sequences, number):
            for name, array in inputs.items():
                found.setdefault(name, []).append(array)
    return {name: np.stack(arrays) for name, arrays in found.items()}


MOVES = ("Transpose", "Reshape")


@dataclass(frozen=True)
class Carried:
    """The tensors of a state that go round. enter: the moves between the input and `taken`; leave: those between `made` and the output; in the order
    in which they run."""

    taken: ir.Value
    made: ir.Value
    enter: tuple[ir.Node, ...] = ()
    leave: tuple[ir.Node, ...] = ()


def carried(taken: ir.Value, made: ir.Value) -> Carried:
    """taken, made: a state's input and output. With the longest moves that undo each other; none where there are no such moves."""
    enter, leave = _behind(taken), _before(made)
    for count in range(len(enter), 0, -1):
        for first in range(len(leave)):
            last, source = enter[count - 1].outputs[0], leave[first].inputs[0]
            alike = source is not None and known_shape(source) == known_shape(last)
            if source is not None and alike and undone(enter[:count], leave[first:], known_shape(taken)):
                return Carried(last, source, enter[:count], leave[first:])
    return Carried(taken, made)


def carried_pairs(graph: ir.Graph, states: Mapping[str, str]) -> dict[str, str]:
    """By the tensor that goes round into a step the one that goes out of it. states: by input of the graph its output."""
    inputs, outputs = ({value.name or "": value for value in side} for side in (graph.inputs, graph.outputs))
    found = (carried(inputs[taken], outputs[made]) for taken, made in states.items() if taken in inputs and made in outputs)
    return {each.taken.name or "": each.made.name or "" for each in found}


def undone(enter: Sequence[ir.Node], leave: Sequence[ir.Node], shape: Sequence[int] | None) -> bool:
    """Whether moves leave each element of a tensor of this shape where other moves took it from."""
    if shape is None or not enter or not leave:
        return not enter and not leave
    places = np.arange(math.prod(shape)).reshape(shape)
    there = _moved(places, enter)
    back = None if there is None else _moved(there, leave)
    return back is not None and np.array_equal(back, places)


def _moved(array: Array, moves: Sequence[ir.Node]) -> Array | None:
    """None where the moves are of a tensor of another size."""
    for node in moves:
        if is_operator(node, "Transpose"):
            perm = ints(node, "perm", range(array.ndim)[::-1])
            if len(perm) != array.ndim:
                return None
            array = array.transpose(perm)
            continue
        shape = known_shape(node.outputs[0])
        if shape is None or math.prod(shape) != array.size:
            return None
        array = array.reshape(shape)
    return array


def _behind(value: ir.Value) -> tuple[ir.Node, ...]:
    """Moves of a tensor, one after the other, which nothing else reads on the way."""
    found = list[ir.Node]()
    while (node := _only_move(value)) is not None:
        found.append(node)
        value = node.outputs[0]
    return tuple(found)


def _only_move(value: ir.Value) -> ir.Node | None:
    """The move that reads a tensor, where nothing else does and the graph hands out neither it nor the result."""
    readers = [node for node, _ in value.uses()]
    alone = len(readers) == 1 and is_operator(readers[0], *MOVES) and not value.is_graph_output()
    return readers[0] if alone and not readers[0].outputs[0].is_graph_output() else None


def _before(value: ir.Value | None) -> tuple[ir.Node, ...]:
    """Moves that make a tensor, the last one last."""
    found = list[ir.Node]()
    while value is not None and (node := value.producer()) is not None and is_operator(node, *MOVES):
        found.append(node)
        value = node.inputs[0]
    return tuple(reversed(found))
