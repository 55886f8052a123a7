"""A region's engine: as many runs as its samples fill, results by the graph's names, whatever device answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from tests.runtime.small import bundle, network
from toolchain.runtime.device import ByteRange, Bytes, Ran
from toolchain.runtime.region_engine import PackedEngine, RegionEngine


@dataclass
class Answering:
    """A device that answers zeros, and takes a second for each share."""

    writes: list[Mapping[ByteRange, Bytes]] = field(default_factory=list[Mapping[ByteRange, Bytes]])

    def run(self, writes: Mapping[ByteRange, Bytes], reads: Sequence[ByteRange]) -> Ran:
        self.writes.append(writes)
        return Ran(tuple(np.zeros(where.bytes, np.uint8) for where in reads), 1.0, 2.0, 3.0)


@pytest.mark.parametrize("target", ["vta", "dpuv3"])
def test_samples_fill_runs_and_shares_add_up(target: str) -> None:
    machine, (region, *_) = network(target)[0], bundle(target).manifest.regions
    device, count = Answering(), region.images + 1
    engine: RegionEngine = PackedEngine(machine, region, device)
    (port,) = region.inputs
    results, shares = engine.run([{port.name: np.zeros(port.shape, np.int8), "other": np.ones(1)}] * count)
    assert len(device.writes) == 2
    assert (shares.launch, shares.execute) == (4.0, 6.0)
    assert shares.transfer >= 2.0
    assert [{name: array.shape for name, array in result.items()} for result in results] == [{p.name: p.shape for p in region.outputs}] * count


def test_no_samples_are_no_runs() -> None:
    device, region = Answering(), bundle("vta").manifest.regions[0]
    results, _ = PackedEngine(network("vta")[0], region, device).run([])
    assert (results, device.writes) == ([], [])
