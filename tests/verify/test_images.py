"""How many images a verification takes: at least four but for large networks, in whole runs, none twice."""

import pytest

from toolchain.verify.images import LARGE, compared_images


@pytest.mark.parametrize(
    ("macs", "per_run", "samples", "images"),
    [
        (10, 1, 8, 4),
        (LARGE - 1, 1, 8, 4),
        (LARGE, 1, 8, 2),
        (10, 4, 8, 4),
        (LARGE, 4, 8, 4),
        (10, 3, 8, 6),
        (10, 1, 3, 3),
        (10, 4, 2, 4),
        (LARGE, 1, 1, 1),
        (10, 1, 0, 1),
    ],
)
def test_whole_runs(macs: int, per_run: int, samples: int, images: int) -> None:
    assert compared_images(macs, per_run, samples) == images
