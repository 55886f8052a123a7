"""Pictures: range, grid, deviation, coarse structure; other samples are other pictures."""

import numpy as np
import pytest

from toolchain.models.images import seeded_samples


@pytest.mark.parametrize("shape", [(1, 3, 224, 224), (1, 1, 8, 8), (1, 3, 299, 160), (1, 77), (1, 5, 9)])
def test_values_are_whole_64ths_of_deviation_about_1(shape: tuple[int, ...]) -> None:
    samples = seeded_samples("image", shape, 8, "calibration")
    assert samples.shape == (8, *shape[1:])
    assert samples.dtype == np.float32
    assert (samples * 64 == np.rint(samples * 64)).all()
    assert samples.min() >= -2
    assert samples.max() < 2
    assert 0.6 < samples.std() < 1.3


def test_neighbours_are_alike_but_not_equal() -> None:
    picture = seeded_samples("image", (1, 3, 224, 224), 1, "calibration")[0]
    for far, least, most in ((1, 0.6, 0.95), (64, -0.4, 0.4)):
        assert least < np.corrcoef(picture[:, :, far:].ravel(), picture[:, :, :-far].ravel())[0, 1] < most
    assert 0.5 < np.corrcoef(picture[0].ravel(), picture[1].ravel())[0, 1] < 0.999


def test_samples_differ_by_number_name_and_purpose_and_not_by_count() -> None:
    shape = (1, 3, 16, 16)
    first, second = seeded_samples("image", shape, 2, "calibration")
    assert (first == seeded_samples("image", shape, 1, "calibration")[0]).all()
    others = [second, seeded_samples("image", shape, 1, "test")[0], seeded_samples("left", shape, 1, "calibration")[0]]
    assert all((first != other).mean() > 0.5 for other in others)
