"""What hardware left, with slips at known places: each is named by its result, its byte and its writer."""

import numpy as np
import pytest

from tests.c_networks import recorded
from toolchain.runtime.cosim import RecordedRun
from toolchain.verify.cosim_check import compare_memory


@pytest.fixture(scope="module")
def run() -> RecordedRun:
    return recorded("vta")


def test_the_same_bytes_are_no_difference(run: RecordedRun) -> None:
    assert compare_memory(run, run.after.copy()) is None


def test_a_wrong_result_is_found_with_its_writer(run: RecordedRun) -> None:
    held, found = run.image.map, run.after.copy()
    address = held.address_of(held.outputs[0]) + 3
    found[address] ^= 0x40
    difference = compare_memory(run, found)
    assert difference is not None
    assert (difference.address, difference.differing, difference.segment) == (address, 1, "results")
    assert (difference.expected, difference.found) == (run.after[address], found[address])
    assert (difference.tensor, difference.coordinates) == (held.outputs[0], (0, 3, 0, 0))
    assert " STORE at " in difference.writer


def test_the_earliest_writer_is_named_wherever_its_bytes_stand(run: RecordedRun) -> None:
    """A tensor between operations is written before the result, at a higher address."""
    held = run.image.map
    swap = held.segments["swap"]
    changed = np.flatnonzero(run.before != run.after)
    inner = changed[(changed >= swap.address) & (changed < swap.address + swap.bytes)]
    if not len(inner):
        pytest.skip("everything between operations stays on chip")
    found = run.after.copy()
    found[[held.address_of(held.outputs[0]), inner[0]]] ^= 1
    difference = compare_memory(run, found)
    assert difference is not None
    assert (difference.address, difference.segment, difference.differing) == (inner[0], "swap", 2)
    assert difference.tensor == held.outputs[0]


def test_a_constant_that_changed_has_no_writer(run: RecordedRun) -> None:
    found, constants = run.after.copy(), run.image.map.segments["constants"]
    found[constants.address] ^= 1
    difference = compare_memory(run, found)
    assert difference is not None
    assert (difference.writer, difference.segment, difference.tensor) == ("", "constants", "")
