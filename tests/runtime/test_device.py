"""Ranges of device memory, and the parts of a run."""

import numpy as np
import pytest

from toolchain.abi.dram_map import DramMap, Segment
from toolchain.runtime.device import ByteRange, run_in

HELD = DramMap("", "", {"in": Segment(8, 8), "out": Segment(32, 8)}, {}, ("x",), ("y",))


def test_ranges_stand_where_their_segments_do() -> None:
    memory, told = np.zeros(64, np.uint8), list[str]()

    def execute() -> None:
        told.append("execute")
        memory[32:40] = memory[8:16] * 2

    write, read = ByteRange("in", 4, 4), [ByteRange("out", 4, 4), ByteRange("out", 0, 2)]
    ran = run_in(memory, HELD, {write: np.arange(4, dtype=np.uint8)}, read, execute, lambda: told.append("launch"))
    assert told == ["launch", "execute"]
    assert [part.tolist() for part in ran.data] == [[0, 2, 4, 6], [0, 0]]
    assert min(ran.transfer, ran.launch, ran.execute) >= 0
    memory[:] = 9
    assert ran.data[0].tolist() == [0, 2, 4, 6]  # a copy


def test_a_run_that_fails_says_so() -> None:
    def execute() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_in(np.zeros(64, np.uint8), HELD, {}, [], execute)
