"""SplitMix64 by its published sequence; the bell's moments; positions do not depend on how much is asked for."""

import numpy as np

from toolchain.models.random_bits import BELL_SQUARE, bell, key_of, signed_bytes, words


def test_words_are_splitmix64s_own_sequence() -> None:
    assert words(1234567, 0, 3).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_a_words_value_depends_on_its_position_alone() -> None:
    assert words(7, 5, 3).tolist() == words(7, 0, 8)[5:].tolist()


def test_bytes_are_the_words_lowest_byte_first() -> None:
    first = int(words(3, 0, 1)[0])
    assert signed_bytes(3, 3).view(np.uint8).tolist() == [first >> shift & 255 for shift in (0, 8, 16)]


def test_the_bell_has_the_moments_it_states() -> None:
    values = bell(1, 400_000).astype(np.float64)
    assert abs(values.mean()) < 1
    assert abs((values**2).mean() / BELL_SQUARE - 1) < 0.01
    assert abs((values**4).mean() / BELL_SQUARE**2 - 2.7) < 0.05  # a sum of four flat ones has 3 - 6 / 5 / 4
    assert values.min() >= -510
    assert values.max() <= 510


def test_the_bell_is_the_sum_of_four_bytes_minus_their_mean() -> None:
    one, other = (int(word) for word in words(9, 0, 2))
    expected = [sum(word >> 16 * lane + shift & 255 for word in (one, other) for shift in (0, 8)) - 510 for lane in range(4)]
    assert bell(9, 4).tolist() == expected


def test_other_names_give_other_keys() -> None:
    assert len({key_of(0, "a"), key_of(1, "a"), key_of(0, "b"), key_of("0a")}) == 4
