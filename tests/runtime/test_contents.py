"""Samples and the runs that they fill; states that a manifest has."""

from hypothesis import given
from hypothesis import strategies as st

from tests.runtime.small import bundle
from tests.steps_network import built
from toolchain.runtime.bundle import manifest_text
from toolchain.runtime.contents import runs_of, samples_a_run

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


def test_states_stand_in_the_manifest_only_where_there_are_some() -> None:
    assert '"states"' in manifest_text(built("vta").bundle)
    assert '"states"' not in manifest_text(bundle())
