"""The block of an index is a law of a map's values, whatever its text."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.spec.small import small
from toolchain.abi.packing import view_packing
from toolchain.schedule.regions.blocks import NONE, block_of
from toolchain.spec.model import Machine


def machine(image: str, shape: str) -> Machine:
    """The small machine with this map and shape for its layout."""
    written = '    inverse: "n b l -> n, b * LANES + l"\n    written: true\n'
    return small(('"n c -> n, c // LANES, c % LANES"', f'"n c -> {image}"'), ('[N, "ceil_div(C, LANES)", LANES]', shape), (written, ""))


@pytest.mark.parametrize(
    ("image", "shape", "block"),
    [
        ("n, c // 16, c % 16", '[N, "ceil_div(C, 16)", 16]', 16),
        ("n, c >> 4, c & 15", '[N, "ceil_div(C, 16)", 16]', 16),
        ("n, c - (c & 15), c - (c >> 4) * 16", '[N, "align(C, 16)", 16]', 16),
        ("n, c // 12, c % 12", '[N, "ceil_div(C, 12)", 12]', 12),
        ("n, c // 16, c % 16 // 4, c % 4", '[N, "ceil_div(C, 16)", 4, 4]', 16),
        ("n, c", "[N, C]", 1),
        ("n, c", '[N, "align(C, 12)"]', 12),
        ("n, c // 4, c % 4", '[N, "align(ceil_div(C, 4), 6)", 4]', 24),
        ("n, c", '[N, "C + 1"]', NONE),
        ("(n * C + c) // 16, (n * C + c) % 16", '["ceil_div(N * C, 16)", 16]', 16),
        ("n, C - 1 - c", "[N, C]", 1),
        ("n, 0 if c == 0 else C - c", "[N, C]", NONE),
    ],
)
def test_the_block_is_found_however_the_map_is_written(image: str, shape: str, block: int) -> None:
    assert block_of(machine(image, shape).layouts[0], "c") == block


@given(st.integers(1, 40), st.integers(0, 3), st.integers(1, 50))
def test_a_tensor_at_a_block_stands_as_if_alone(block: int, blocks: int, count: int) -> None:
    """The law that a concat rests on: a part's elements are those of its own tensor, moved by one step."""
    held = machine(f"n, c // {block}, c % {block}", f'[N, "ceil_div(C, {block})", {block}]')
    found = block_of(held.layouts[0], "c")
    assert found == block
    first = blocks * found
    whole = view_packing(held, "ddr.row", "rows_of", (2, first + count))
    part, alone = whole.part(1, first, count), view_packing(held, "ddr.row", "rows_of", (2, count))
    for axis, (there, here) in enumerate(zip(part.index, alone.index, strict=True)):
        assert len(np.unique(there - here)) == 1, axis
