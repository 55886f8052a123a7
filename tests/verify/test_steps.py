"""Steps in a row are compared with outputs and states of every step; a state that is not handed on is found."""

from dataclasses import replace

import numpy as np

from tests.steps_network import HELD, MADE, built
from toolchain.runtime.step_session import open_steps
from toolchain.tasks.actions.paths import graph_file
from toolchain.verify.built import integer_stage
from toolchain.verify.steps import compare_steps
from toolchain.verify.verdict import StepsVerdict


def verdict(**changed: object) -> StepsVerdict:
    held = built("vta")
    executor = replace(held.executor(), **changed)  # pyright: ignore[reportArgumentType]
    return compare_steps(open_steps(executor), integer_stage(graph_file(held.job).parent), held.sequences)


def test_steps_that_are_equal() -> None:
    assert verdict() == StepsVerdict(5, 5 * (HELD + MADE + 1), 0, "", 1, 2)


def test_a_wrong_start_is_found_in_the_first_step() -> None:
    found = verdict(starts={"h": np.zeros((1, HELD), np.float32), "count": np.array([3])})
    assert found.differing
    assert found.first == "'y' in step 0"


def test_a_state_that_is_forgotten_is_found_in_the_second_step() -> None:
    held = built("vta")
    session = held.session()
    own = next(iter(session._own.values()))  # pyright: ignore[reportPrivateUsage]
    own._moves = dict  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    found = compare_steps(session, integer_stage(graph_file(held.job).parent), held.sequences)
    assert found.differing
    assert found.first.endswith("in step 1")
