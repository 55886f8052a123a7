"""Tensors that one step of a network hands to the next: runs of steps in which an output becomes the input of the step after."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

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
