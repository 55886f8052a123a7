"""The masked machine: what a lane does depends on its position, on every engine alike."""

from pathlib import Path

import numpy as np
import pytest

from tests.target_runs import Array, execute, random_int8, read
from toolchain.isa.check_machine import check_machine
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.isa.semantics.text import unparse_semantics
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_file, load_text

PATH = Path(__file__).resolve().parents[1] / "data" / "machines" / "masked.yaml"
MACHINE = load_file(PATH)
LANES = np.arange(8)


def saved(columns: int, first: int, depth: int) -> tuple[Array, Array]:
    """Four rows of products as stored at row 64, and what should stand there: `columns` of them from `first` on, over `depth` inputs."""
    x, w, old = random_int8(1, 4, 8, low=-9, high=9), random_int8(2, 8, 8, low=-3, high=3), random_int8(3, 4, 8)
    given = {"dram": {0: x.astype(np.int8), 256: w.astype(np.int8), 512: old.astype(np.int8)}}
    text = f"""
        LOAD count=4 columns={depth} source=0 target=0 far=0
        TILE columns=8 source=0 target=0 far=4 step=2
        BASE count=4 source=0 target=3 step=-2 post=2
        DOT count=4 columns={columns} first={first} source=0 target=3 wait=1 post=4
        SAVE count=4 columns={columns} first={first} source=0 target=3 far=64 wait=2
        END
    """
    state = execute(MACHINE, text, given)
    tile = np.where(LANES[:, None] == LANES, 2, np.where(LANES[:, None] + LANES < 8, w, 0))
    taken = np.where(np.isin(LANES, np.arange(min(depth, columns))), x, 0)
    base = -2 * LANES + np.arange(4)[:, None]
    inside = np.isin(LANES, np.arange(first, first + columns))
    return read(state, "dram", 512, (4, 8)), np.where(inside, np.clip(base + taken @ tile.T, -128, 127), old)


@pytest.mark.parametrize(("columns", "first", "depth"), [(8, 0, 8), (3, 2, 8), (5, 6, 4), (0, 0, 8), (8, 1, 0)])
def test_part_of_the_columns(columns: int, first: int, depth: int) -> None:
    found, expected = saved(columns, first, depth)
    np.testing.assert_array_equal(found, expected)


def test_the_text_of_positions_reads_back() -> None:
    for semantics in machine_semantics(MACHINE).values():
        text = unparse_semantics(semantics)
        assert "dram.row[far + i][o] if o < columns else 0" in text or semantics.instruction != "LOAD"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rows[source + i][o] = dram.row[far + i][o]", "rows[source + i][o] = dram.row[far + o][o]", "E0202 'o' is a lane, not a number"),
        ("for i in range(count):\n          rows", "for i in range(o):\n          rows", "E0202 unknown name 'o'"),
        ("if o < columns else 0\n  TILE", "if p < columns else 0\n  TILE", "E0202 unknown name 'p'"),
        ("sums[target + i][o] = o * step + i", "sums[target + i] = o * step + i", "E0202 unknown name 'o'"),
        ("= o * step + i", "= rows[source + i][k] * k", "E0206 lane 'k' is neither written nor reduced"),
        ("overflow: wrap}\nviews", "overflow: error}\nviews", "E0220"),
    ],
)
def test_refusals(old: str, new: str, message: str) -> None:
    text = PATH.read_text()
    assert text.count(old) == 1
    with pytest.raises(UserError) as caught:
        check_machine(load_text(text.replace(old, new), "masked.yaml"))
    assert message in str(caught.value)
