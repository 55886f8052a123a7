"""Several runs of a program become one entry for each tensor."""

from toolchain.verify.comparison import Comparison, unite
from toolchain.verify.verdict import Compared, Difference


def compared(tensor: str, image: int | None = None) -> Compared:
    difference = None if image is None else Difference(tensor, (image, 0, 0, 0), 1, 2, 3, "op", (), None)
    return Compared(tensor, "op", "dram", 10, difference)


def test_elements_add_up_and_the_first_difference_stays() -> None:
    runs = [Comparison((compared("x"), compared("y", image)), ()) for image in (None, 1, 2)]
    x, y = unite(runs)
    assert (x.elements, x.difference) == (30, None)
    assert y.elements == 30
    assert y.difference is not None
    assert (y.difference.coordinates[0], y.difference.differing) == (1, 6)


def test_an_output_that_was_overwritten_is_told_once() -> None:
    runs = [Comparison((compared("y"),), (compared("y", image),)) for image in (0, 1)]
    found = unite(runs)
    assert [item.difference and item.difference.coordinates[0] for item in found] == [None, 0]
