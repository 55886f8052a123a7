"""DOC"""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from onnx import helper

from bench.in_process import Target
from tests.c_networks import clib, compiled, pictures
from tests.codegen.test_c99 import region
from tests.compiled_network import compile_network
from tests.graph.onnx_builder import model
from tests.graph_networks import built, regions, samples
from toolchain.graph.regions import GraphRegion, region_calls
from toolchain.graph.store import read_stage
from toolchain.runtime.open_region import Stored
from toolchain.schedule.backend import Backend
from toolchain.verify.code_ladder import border_names, climb_calls, climb_graph
from toolchain.verify.compare import oracle_tensors

needs_c = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on this machine")


@needs_c
def test_every_tensor_is_compared() -> None:
    found = compiled()
    stages = sorted(found.folder.glob("[0-9][0-9]-*.onnx"))
    expected = oracle_tensors(read_stage(stages[-2]), {"x": pictures(3)})
    own, bundle = region(), found.bundle
    (program,) = bundle.manifest.regions
    verdict = climb_calls(clib(), own, bundle, program, expected)
    assert verdict.exact
    assert verdict.sampled is None
    assert verdict.instructions == len(own.operations)
    assert {item.tensor for item in verdict.compared} == set(own.tensors) - set(own.inputs)
    assert all(item.elements % 3 == 0 for item in verdict.compared)
    member = program.constants["constants"]
    data = np.frombuffer(bundle.members[member], np.uint8).copy()
    data ^= 1
    wrong = climb_calls(clib(), own, replace(bundle, members={**bundle.members, member: data.tobytes()}), program, expected)
    assert not wrong.exact
    assert wrong.difference is not None
    assert wrong.difference.tensor == "y.int8"
    lost = climb_calls(clib(), own, bundle, program, {name: array for name, array in expected.items() if name != "d.int8"})
    assert [name for name, _ in lost.unseen] == ["d.int8"]


def test_borders_are_compared() -> None:
    found, machine = built(), built().executor.machine
    stages = sorted(found.folder.glob("[0-9][0-9]-*.onnx"))
    names = [name for region in regions() for name in border_names(region)]
    expected = oracle_tensors(read_stage(stages[-2]), {"x": samples(3)}, names)
    assert set(names) <= set(expected)
    for graph, program in zip(regions(), found.bundle.manifest.regions, strict=True):
        verdict = climb_graph(graph, Stored(found.bundle, program, machine, "", False, optimise=False), expected)
        assert verdict.exact
        assert verdict.instructions == len(graph.nodes)
        assert [item.tensor for item in verdict.compared] == [tensor.name for tensor in graph.outputs]
    region, program = regions()[0], found.bundle.manifest.regions[0]
    member = program.constants["constants"]
    data = np.frombuffer(found.bundle.members[member], np.uint8).copy()
    data[:64] ^= 1  # of the first constant, weights
    damaged = replace(found.bundle, members={**found.bundle.members, member: data.tobytes()})
    wrong = climb_graph(region, Stored(damaged, program, machine, "", False, optimise=False), expected)
    assert not wrong.exact
    assert wrong.difference is not None
    assert wrong.difference.differing > 0


def test_rows_of_nearly_equal_numbers_are_close_and_a_wrong_scale_is_not() -> None:
    """ONNX Runtime's mean is a float32: its own results are further from the truth than the tolerance, by what the last bits of the rows explain."""
    rows = (100 + 1e-3 * np.random.default_rng(0).normal(size=(2, 6, 7))).astype(np.float32)
    node = helper.make_node("LayerNormalization", ["x", "scale"], ["y"], "norm", epsilon=1e-5)
    proto = model([node], {"x": [6, 7]}, {"y": [6, 7]}, {"scale": np.ones(7, np.float32)})
    found = compile_network(proto, "rows", Target("clib32"), rows)
    (program,), machine = found.bundle.manifest.regions, found.executor.machine
    (call,) = region_calls(found.partitioned)
    region = Backend(machine, {}).read(found.partitioned, call)
    assert isinstance(region, GraphRegion)
    expected = oracle_tensors(read_stage(found.integer), {"x": rows}, border_names(region))
    verdict = climb_graph(region, Stored(found.bundle, program, machine, "", True, optimise=False), expected)
    assert verdict.right
    assert " elements are further, by what 2 times the last bits of the region's inputs change there" in verdict.allowed
    wrong = climb_graph(region, Stored(found.bundle, program, machine, "", True, optimise=False), expected | {"y": expected["y"] * np.float32(1.03)})
    assert not wrong.right
