"""Samples and the runs that they fill; states that can be."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runtime.small import bundle
from tests.steps_network import built
from toolchain.runtime.bundle import manifest_text
from toolchain.runtime.contents import Bundle, check_stateless, plan_faults, runs_of, samples_a_run
from toolchain.spec.errors import UserError

SIZES = st.integers(1, 12)


@given(SIZES, SIZES, SIZES)
def test_runs_hold_all_images_and_no_run_is_empty(samples: int, images: int, batch: int) -> None:
    runs = runs_of(samples, images, batch)
    assert (runs - 1) * images < samples * batch <= runs * images


@given(SIZES, SIZES)
def test_a_run_holds_whole_samples(images: int, batch: int) -> None:
    samples = samples_a_run(images, batch)
    assert samples == 1 or runs_of(samples, images, batch) == 1
    assert runs_of(samples + 1, images, batch) > 1


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"input": "y"}, "the state 'y' is no input and output of one shape and type"),
        ({"output": "y"}, "the state 'h' is no input and output of one shape and type"),
        ({"taken": "nothing"}, "the state 'h' is handed on as a tensor that no step makes"),
        ({"made": "nothing"}, "the state 'h' is handed on as a tensor that no step makes"),
        ({"start": "region0.two"}, "the start of the state 'h' has another size"),
        ({"start": "data-none.bin"}, "there is no member 'data-none.bin'"),
        ({"input": "count", "output": "next_count", "taken": "count", "made": "next_count"}, "two states are one tensor"),
    ],
)
def test_states_that_cannot_be(changes: dict[str, str], fault: str) -> None:
    held = built("vta").bundle
    assert list(plan_faults(held)) == []
    state, other = held.manifest.states
    manifest = replace(held.manifest, states=(replace(state, **changes), other))
    members = {**held.members, "region0.two": b"12"}
    assert fault in list(plan_faults(Bundle(manifest, members)))


def test_states_stand_in_the_manifest_only_where_there_are_some() -> None:
    assert '"states"' in manifest_text(built("vta").bundle)
    assert '"states"' not in manifest_text(bundle())
    with pytest.raises(UserError, match="E1133 'steps' has 2 states"):
        check_stateless(built("vta").bundle.manifest, "")
    check_stateless(bundle().manifest, "")
