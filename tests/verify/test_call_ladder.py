"""Every tensor of a region of C against the integer network; a wrong constant is found where it first counts."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from tests.c_networks import clib, compiled, pictures
from tests.codegen.test_c99 import region
from toolchain.graph.files.stage_file import read_stage
from toolchain.verify.call_ladder import climb_calls
from toolchain.verify.oracle import oracle_tensors

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on this machine")


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
