"""C of a region: one call an operation, the same text for the same region, and every result that of the integer model."""

import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

from tests.c_networks import clib, compiled, pictures
from toolchain.codegen.c99 import c99_code, c99_source
from toolchain.codegen.c99_generator import C99Generator
from toolchain.codegen.generators import GENERATORS
from toolchain.graph.regions import region_calls
from toolchain.graph.running.session import open_session, run_session
from toolchain.schedule.calls import plan_calls
from toolchain.schedule.read_region import read_region
from toolchain.schedule.regions.region import Region
from toolchain.spec.schema import read_schema

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on this machine")


def region() -> Region:
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
    kinds = {bound.operation.kind.name for bound in region().operations}
    assert {"conv2d", "depthwise", "max_pool", "average_pool", "add", "multiply", "sigmoid", "upsample"} <= kinds
    assert found.executor.manifest.regions[0].function == "region0"


def test_the_text_has_a_call_an_operation_and_is_the_same_each_time() -> None:
    backend, own = clib(), region()
    code = GENERATORS["c99"].generate(backend, own)
    assert code == C99Generator().generate(backend, own)
    assert code.source.encode() == code.blob
    assert re.findall(r"^    (clib_\w+)\(&", code.source, re.M) == [backend.kernels[bound.kernel].call.function for bound in own.operations]  # type: ignore[union-attr]
    assert set(code.files) == {"clib.h", "clib.c"}
    assert not code.schedule
    assert not code.listing


def test_constants_stand_in_their_segment_once() -> None:
    code = c99_code(clib().machine, plan_calls(clib(), region()))
    assert list(code.constants) == ["constants"]
    assert len(code.constants["constants"]) <= code.map.segments["constants"].bytes


def test_a_name_cannot_end_its_comment() -> None:
    backend, own = clib(), region()
    plan = plan_calls(backend, own)
    bad = tuple(replace(b, operation=replace(b.operation, name="*/ evil(); /*\nint x")) for b in own.operations)
    text = c99_source(backend.machine, replace(plan, region=replace(own, operations=bad)))
    assert "evil()" in text  # within the comment
    assert all(line.count("*/") == line.count("/*") == 1 for line in text.splitlines() if "evil" in line)
    assert "int x" not in [line.strip() for line in text.splitlines()]
