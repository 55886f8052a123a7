"""A region of a vendor's code: tensors at their places in the device's memory, and places that a bundle makes up refused."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from toolchain.abi.dram_map import DramMap, Segment, Shape, StoredTensor
from toolchain.runtime.code_engine import CodeEngine, check_places
from toolchain.runtime.contents import Port, RegionProgram
from toolchain.runtime.device import ByteRange, Bytes, Ran
from toolchain.spec.errors import UserError

SHAPE = (1, 2, 3)


def _stored(segment: str, size: int = 24) -> StoredTensor:
    return StoredTensor(Shape(1, 6, 1, 1), segment, 0, size, "", "", (1, 6, 1, 1))


def _region(result: StoredTensor, segment: Segment) -> RegionProgram:
    held = DramMap("", "", {"inputs": Segment(0, 64), "results": segment}, {"x": _stored("inputs"), "y": result}, ("x",), ("y",))
    ports = (Port("graph.x", "x", SHAPE),), (Port("graph.y", "y", SHAPE),)
    return RegionProgram("region0", "npu", 1, "region0.bin", "", "", held, *ports, {}, 0.0, {}, "")


class _Doubling:
    """A device that answers with twice what was written."""

    def run(self, writes: Mapping[ByteRange, Bytes], reads: Sequence[ByteRange]) -> Ran:
        ((where, data),) = writes.items()
        assert (where, [*reads]) == (ByteRange("inputs", 0, 24), [ByteRange("results", 0, 24)])
        return Ran(((data.view("<f4") * 2).view(np.uint8),), 0.5, 0.25, 2.0)


def test_each_sample_is_a_run() -> None:
    samples = [{"graph.x": np.arange(6, dtype=np.float32).reshape(SHAPE) + k} for k in range(3)]
    made, shares = CodeEngine(_region(_stored("results"), Segment(64, 64)), _Doubling()).run(samples)
    assert all(np.array_equal(one["graph.y"], 2 * sample["graph.x"]) for one, sample in zip(made, samples, strict=True))
    assert (shares.transfer, shares.launch, shares.execute) == (1.5, 0.75, 6.0)


@pytest.mark.parametrize(
    ("result", "segment"),
    [
        (_stored("nowhere"), Segment(64, 64)),
        (_stored("results", size=20), Segment(64, 64)),
        (_stored("results"), Segment(64, 16)),
        (replace(_stored("results"), offset=-8), Segment(64, 64)),
        (_stored("results"), Segment(-64, 64)),
    ],
)
def test_a_place_that_is_none_is_refused(result: StoredTensor, segment: Segment) -> None:
    check_places(_region(_stored("results"), Segment(64, 64)), "place")
    with pytest.raises(UserError, match="E1104 the tensor 'y' of region 'region0' has no place"):
        check_places(_region(result, segment), "place")
