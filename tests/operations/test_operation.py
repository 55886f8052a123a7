"""Operations with numbers and arrays in place: pictures, the largest sum, shapes that do not fit."""

import numpy as np
import pytest

from tests.operations import made
from toolchain.operations.operation import finished, from_picture, picture_of, to_picture
from toolchain.operations.reference import accumulate
from toolchain.spec.errors import UserError
from toolchain.spec.model.quantisation import Numerics

RNG = np.random.default_rng(0)


def test_tensors_of_any_rank_as_pictures() -> None:
    assert [picture_of(shape) for shape in ((2, 3), (2, 5, 3), (2, 3, 4, 5))] == [(2, 3, 1, 1), (2, 3, 5, 1), (2, 3, 4, 5)]
    with pytest.raises(UserError, match="E1003 a tensor of 5 axes is no picture and no row"):
        picture_of((1, 2, 3, 4, 5))
    for shape in ((2, 3), (2, 5, 3), (2, 3, 4, 5)):
        array = RNG.integers(0, 99, shape)
        assert to_picture(array).shape == picture_of(shape)
        np.testing.assert_array_equal(from_picture(to_picture(array), len(shape)), array)


def test_the_largest_sum_is_reached_and_never_passed() -> None:
    weight, bias = RNG.integers(-128, 128, (3, 4, 3, 3), np.int8), np.array([5, -700, 40], np.int32)
    operation = made.conv2d("c", (1, 4, 3, 3), weight, bias, shift=3)
    worst = np.where(weight < 0, -128, 127).astype(np.int64)
    most = max(int((worst * weight).sum((1, 2, 3)).max()), 0) + 700
    assert most <= operation.reach() <= int(np.abs(weight.astype(int)).sum((1, 2, 3)).max()) * 128 + 700 + 4
    assert made.add("a", (1, 1, 1, 1), 3, -5, made.Requantise(4)).reach() == 8 * 128 + 8
    assert made.average_pool("p", (1, 1, 4, 4), made.Window((2, 2)), 7, made.Requantise(2)).reach() == 4 * 7 * 128 + 2


@pytest.mark.parametrize("zero", [0, 77])
def test_sizes_alone_show_that_a_sum_stays_small_and_weights_that_it_may_not(zero: int) -> None:
    weight, bias = RNG.integers(-128, 128, (3, 4, 3, 3), np.int8), np.array([5, -700, 40], np.int32)
    for operation in (
        made.conv2d("c", (1, 4, 3, 3), weight, bias, shift=3, zero_x=zero),
        made.conv2d("c", (1, 4, 3, 3), np.full_like(weight, -128), bias, shift=3, zero_x=zero),
        made.add("a", (1, 1, 1, 1), 3, -5, made.Requantise(4)),
    ):
        for most in (128, 255):
            reach = operation.reach(most)
            assert operation.stays_below(reach + 1, most)
            assert not operation.stays_below(reach, most)
            assert operation.stays_below(1 << 40, most)


def test_a_folded_bias_is_for_stored_integers() -> None:
    """The sum of what stands for the integers, around the edges too, is that of the integers themselves with the zero point around them."""
    weight, bias = RNG.integers(-128, 128, (3, 4, 3, 3), np.int8), np.array([5, -700, 40], np.int32)
    x = RNG.integers(0, 256, (1, 4, 5, 5))
    centred = made.conv2d("c", (1, 4, 5, 5), weight, bias, pads=(1, 1, 1, 1), zero_x=77)
    stored = made.conv2d("c", (1, 4, 7, 7), weight, centred.constants["folded"])
    wanted = accumulate(centred.kind, centred.numbers, {"x": x - 77, "weight": weight, "bias": bias})
    around = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=77)
    np.testing.assert_array_equal(accumulate(stored.kind, stored.numbers, {"x": around, **stored.arrays}), wanted)
    assert int(np.abs(wanted).max()) <= centred.reach(255)


def test_arrays_of_each_channels_scale_are_there_on_every_machine() -> None:
    weight, bias = RNG.integers(-128, 128, (3, 4, 1, 1), np.int8), np.array([5, -700, 40], np.int32)
    plain = made.conv2d("c", (1, 4, 3, 3), weight, bias, shift=3)
    assert {name: plain.constants[name].tolist() for name in ("multipliers", "shifts", "scales", "folded")} == {
        "multipliers": [1, 1, 1], "shifts": [3, 3, 3], "scales": [0, 0, 0], "folded": bias.tolist(),
    }  # fmt: skip
    own = made.made("conv2d", "c", {"x": (1, 4, 3, 3)}, {"weight": weight, "bias": bias, "scales": np.array([0.5, 1, 2], np.float32)})
    assert own.constants["scales"].view(np.float32).tolist() == [0.5, 1, 2]
    assert plain.reach() == own.reach() + 4  # the rounding half of a shift


def test_weights_of_a_flattened_picture_stand_as_the_picture() -> None:
    dense = made.made("dense", "d", {"x": (2, 3, 2, 2)}, {"weight": RNG.integers(-9, 9, (5, 12), np.int8), "bias": np.zeros(5, np.int32)})
    assert (dense.arrays["weight"].shape, dense.output, dense.macs) == ((5, 3, 2, 2), (2, 5, 1, 1), 2 * 5 * 12)
    with pytest.raises(UserError, match="E1003 the shapes of 'd' do not fit each other"):
        made.made("dense", "d", {"x": (2, 3, 2, 2)}, {"weight": RNG.integers(-9, 9, (5, 11), np.int8), "bias": np.zeros(5, np.int32)})


def test_a_table_is_looked_up() -> None:
    table = np.arange(-128, 128).astype(np.int8)[::-1].copy()
    x = RNG.integers(-128, 128, (1, 2, 3, 3)).astype(np.int8)
    found = made.made("sigmoid", "s", {"x": (1, 2, 3, 3)}, {"table": table}).run({"x": x}, Numerics())
    np.testing.assert_array_equal(found, -1 - x.astype(int))


def test_rows_whose_order_is_free() -> None:
    weight = RNG.integers(-9, 9, (6, 3, 1, 1), np.int8)
    assert made.conv2d("c", (1, 3, 2, 2), weight, np.zeros(6, np.int32)).free_rows
    assert not made.conv2d("c", (1, 6, 2, 2), weight, np.zeros(6, np.int32), group=2).free_rows
    assert not made.depthwise("d", (1, 6, 2, 2), weight[:, 0], np.zeros(6, np.int32), made.Window((1, 1)), made.Requantise()).free_rows


def test_shifts_of_channels_are_numbers_from_the_least_to_the_largest() -> None:
    weight, bias, x = (
        RNG.integers(-128, 128, (3, 4, 1, 1), np.int8),
        np.array([5, -700, 40], np.int32),
        RNG.integers(-128, 128, (1, 4, 2, 2), np.int8),
    )
    plain = made.conv2d("c", (1, 4, 2, 2), weight, bias, shift=4)
    assert (plain.numbers["shift"], plain.numbers["shift_least"], plain.numbers["half"]) == (4, 4, 8)
    own = finished(plain.kind, "c", plain.numbers, {**plain.arrays, "shifts": np.array([3, 9, 4], np.int32)})
    assert (own.numbers["shift"], own.numbers["shift_least"], own.numbers["half"]) == (9, 3, 256)
    assert own.constants["multipliers"].tolist() == [1, 1, 1]
    assert own.reach() == plain.reach() - 8 + 256
    for channel, shift in enumerate((3, 9, 4)):
        alone = made.conv2d("c", (1, 4, 2, 2), weight, bias, shift=shift).run({"x": x}, Numerics())
        np.testing.assert_array_equal(own.run({"x": x}, Numerics())[:, channel], alone[:, channel])


def test_a_negative_shift_is_refused() -> None:
    with pytest.raises(UserError, match="E1003 'a' shifts by -1"):
        made.add("a", (1, 1, 1, 1), 1, 1, made.Requantise(-1))
