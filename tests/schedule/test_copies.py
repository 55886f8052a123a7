"""Copies of a region."""

from toolchain.schedule.copies import ONE, Copies


def test_images_of_a_run_are_those_of_all_copies() -> None:
    assert (ONE.together, Copies(4, 2).together, Copies(4, 2, 3).together) == (1, 4, 12)
