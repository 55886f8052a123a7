"""Results at the borders of graphs, bit for bit; a wrong constant is told with its place."""

from dataclasses import replace

import numpy as np

from tests.graph_networks import built, regions, samples
from toolchain.graph.files.stage_file import read_stage
from toolchain.runtime.open_region import Stored
from toolchain.verify.graph_ladder import border_names, climb_graph
from toolchain.verify.oracle import oracle_tensors


def test_borders_are_compared() -> None:
    found, machine = built(), built().executor.machine
    stages = sorted(found.folder.glob("[0-9][0-9]-*.onnx"))
    names = [name for region in regions() for name in border_names(region)]
    expected = oracle_tensors(read_stage(stages[-2]), {"x": samples(3)}, names)
    assert set(names) <= set(expected)
    for region, program in zip(regions(), found.bundle.manifest.regions, strict=True):
        verdict = climb_graph(region, Stored(found.bundle, program, machine, "", False, optimise=False), expected)
        assert verdict.exact
        assert verdict.instructions == len(region.nodes)
        assert [item.tensor for item in verdict.compared] == [tensor.name for tensor in region.outputs]
    region, program = regions()[0], found.bundle.manifest.regions[0]
    member = program.constants["constants"]
    data = np.frombuffer(found.bundle.members[member], np.uint8).copy()
    data[:64] ^= 1  # of the first constant, weights
    damaged = replace(found.bundle, members={**found.bundle.members, member: data.tobytes()})
    wrong = climb_graph(region, Stored(damaged, program, machine, "", False, optimise=False), expected)
    assert not wrong.exact
    assert wrong.difference is not None
    assert wrong.difference.differing > 0
