"""A state of one step is an input of the next, in every sequence from its start."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from toolchain.graph.states import Sequences, Tensors, each_step, unrolled
from toolchain.spec.arrays import Array

NUMBERS = st.lists(st.lists(st.integers(-9, 9), min_size=3, max_size=3), min_size=1, max_size=4)


def add(inputs: Tensors) -> dict[str, Array]:
    """Sums from the start on, and the step's own number again."""
    return {"next": inputs["sum"] + inputs["x"], "y": inputs["x"]}


def sums(numbers: list[list[int]], start: int) -> Sequences:
    return Sequences({"x": np.array(numbers)[..., None]}, {"sum": "next"}, {"sum": np.array([start])})


@given(NUMBERS, st.integers(-9, 9))
def test_every_step_is_a_sample_with_the_state_that_the_steps_before_it_made(numbers: list[list[int]], start: int) -> None:
    found = unrolled(add, sums(numbers, start))
    wanted = start + np.cumsum([[0, *sequence[:-1]] for sequence in numbers], axis=1)
    assert np.array_equal(found["sum"], wanted.reshape(-1, 1))
    assert np.array_equal(found["x"], np.array(numbers).reshape(-1, 1))


@given(NUMBERS, st.integers(-9, 9))
def test_one_sequence_ends_in_its_own_sum(numbers: list[list[int]], start: int) -> None:
    for number, sequence in enumerate(numbers):
        steps = list(each_step(add, sums(numbers, start), number))
        assert len(steps) == 3
        assert steps[-1][1]["next"].tolist() == [start + sum(sequence)]


def test_a_network_of_states_alone_has_one_step() -> None:
    alone = Sequences({}, {"sum": "next"}, {"sum": np.array([1])})
    assert (alone.count, alone.steps, alone.sequence(0)) == (1, 1, [{}])
