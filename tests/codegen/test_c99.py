"""C of a region: one call an operation, the same text for the same region, and every result that of the integer model.

A region of ONNX's operators as C: as near ONNX Runtime as the file asks, rooms shared, and numbers that C cannot hold refused.
"""

import re
import shutil
from dataclasses import replace
from itertools import pairwise

import numpy as np
import onnx_ir as ir
import pytest

from tests.c_networks import clib, compiled, pictures
from tests.float_networks import built, region, samples
from toolchain.codegen.c99 import C99Generator, c99_code, c99_graph_code, c99_source, plan_places
from toolchain.codegen.generators import GENERATORS
from toolchain.graph.regions import region_calls
from toolchain.graph.session import open_session, run_session
from toolchain.schedule.backend import Backend
from toolchain.schedule.calls import plan_calls
from toolchain.schedule.read_region import read_region
from toolchain.schedule.regions.region import Region
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine
from toolchain.spec.schema import read_schema

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on this machine")


def integer_region() -> Region:
    backend, model = clib(), compiled().partitioned
    (call,) = region_calls(model)
    return read_region(backend.machine, backend.kernels, model, call)


def test_every_generator_of_the_schema_is_there() -> None:
    assert set(GENERATORS) == set(read_schema()["properties"]["codegen"]["enum"])
    assert isinstance(GENERATORS["c99"], C99Generator)


def test_the_network_is_exact() -> None:
    found, samples = compiled(), pictures(4)
    session = open_session(found.integer, optimise=False)
    expected = np.concatenate([run_session(session, {"x": sample})["y"] for sample in samples])
    assert np.array_equal(found.executor.run({"x": np.concatenate(samples)}).outputs["y"], expected)
    kinds = {bound.operation.kind.name for bound in integer_region().operations}
    assert {"conv2d", "depthwise", "max_pool", "average_pool", "add", "multiply", "sigmoid", "upsample"} <= kinds
    assert found.executor.manifest.regions[0].function == "region0"


def test_the_text_has_a_call_an_operation_and_is_the_same_each_time() -> None:
    backend, own = clib(), integer_region()
    code = GENERATORS["c99"].generate(backend, own)
    assert code == C99Generator().generate(backend, own)
    assert code.source.encode() == code.blob
    assert re.findall(r"^    (clib_\w+)\(&", code.source, re.M) == [backend.kernels[bound.kernel].call.function for bound in own.operations]  # type: ignore[union-attr]
    assert set(code.files) == {"clib.h", "clib.c"}
    assert not code.schedule
    assert not code.listing


def test_constants_stand_in_their_segment_once() -> None:
    code = c99_code(clib().machine, plan_calls(clib(), integer_region()))
    assert list(code.constants) == ["constants"]
    assert len(code.constants["constants"]) <= code.map.segments["constants"].bytes


def test_a_name_cannot_end_its_comment() -> None:
    backend, own = clib(), integer_region()
    plan = plan_calls(backend, own)
    bad = tuple(replace(b, operation=replace(b.operation, name="*/ evil(); /*\nint x")) for b in own.operations)
    text = c99_source(backend.machine, replace(plan, region=replace(own, operations=bad)))
    assert "evil()" in text  # within the comment
    assert all(line.count("*/") == line.count("/*") == 1 for line in text.splitlines() if "evil" in line)
    assert "int x" not in [line.strip() for line in text.splitlines()]


pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on this machine")
BACKEND = Backend(load_machine("clib32"), {})


def test_results_are_near_those_of_onnx_runtime() -> None:
    found, given = built(), samples(3)
    session = open_session(found.integer, optimise=False)
    for sample in given:
        expected, made = run_session(session, {"x": sample}), found.executor.run({"x": sample}).outputs
        assert expected.keys() == made.keys()
        assert all(np.allclose(made[name], expected[name], rtol=1e-3, atol=1e-4) for name in expected)


def test_all_nodes_are_calls_and_the_text_is_the_same_each_time() -> None:
    code = GENERATORS["c99"].generate(BACKEND, region())
    assert code == c99_graph_code(BACKEND, region())
    called = re.findall(r"^    clib32_(\w+)\(&", code.source, re.M)
    assert len(called) == len(region().nodes) == 15
    assert {"conv", "pool", "batch_norm", "concat", "transpose", "gemm", "softmax"} <= set(called)
    assert set(code.files) == {"clib32.h", "clib32.c"}
    assert code.cycles > 0


def test_tensors_that_live_at_once_stand_apart() -> None:
    own, places = region(), plan_places(region())
    sizes = {value.name: 4 * int(np.prod(value.shape)) for node in own.nodes for value in node.outputs}  # type: ignore[call-overload]
    last = {value.name: moment for moment, node in enumerate(own.nodes) for value in node.inputs if value is not None}
    for moment, node in enumerate(own.nodes):
        living = {value.name for value in node.outputs} | {
            value.name for before in own.nodes[:moment] for value in before.outputs if last.get(value.name, 0) >= moment
        }
        spans = sorted((places.address[name or ""], places.address[name or ""] + sizes[name]) for name in living)
        assert all(first[1] <= second[0] for first, second in pairwise(spans))
    swap = places.map.segments["swap"].bytes
    assert swap < sum(sizes.values())


def test_numbers_of_constants_are_those_of_the_region() -> None:
    """Nodes of a region read constants as inputs: their values have to reach the arguments all the same."""
    source = c99_graph_code(BACKEND, region()).source
    assert ".starts = {3, 0, 0, 0, 0, 0, 0, 0}" in source
    assert ".axes = {-1, 0, 0, 0, 0, 0, 0, 0}" in source


def test_a_node_that_its_function_cannot_compute_is_refused() -> None:
    own = region()
    lost = replace(own, constants={name: array for name, array in own.constants.items() if not np.array_equal(array, [3])})
    with pytest.raises(UserError, match="E1010 region 'region0' has a node 'cut' that its library does not take: ranges have to be known"):
        c99_graph_code(BACKEND, lost)


def test_infinity_is_refused() -> None:
    own = region()
    leaky = next(node for node in own.nodes if node.op_type == "LeakyRelu")
    kept = leaky.attributes["alpha"]
    leaky.attributes["alpha"] = ir.AttrFloat32("alpha", float("inf"))
    try:
        with pytest.raises(UserError, match="E1010 attribute 'alpha' of 'leaky' is inf"):
            c99_graph_code(BACKEND, replace(own))
    finally:
        leaky.attributes["alpha"] = kept
