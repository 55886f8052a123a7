"""Calls of fused operations, as passes ask after them.

Whole integer networks: the reference gives what ONNX Runtime does, and leaves out what hangs on the host.
"""

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from tests.graph.imported import imported, normal
from tests.graph.onnx_builder import n
from tests.reasons import because
from toolchain.graph.integers import calls
from toolchain.graph.integers.calls import integer_tensors, is_candidate, note_reasons, run_oracle, run_reference
from toolchain.graph.integers.functions import FUSED
from toolchain.graph.quantisation.table import calibrate
from toolchain.passes.context import Context
from toolchain.passes.fuse import Fuse
from toolchain.passes.pipeline import run_passes
from toolchain.passes.quantize import Quantize
from toolchain.spec.errors import UserError
from toolchain.spec.model.quantisation import Numerics


def test_a_reason_keeps_a_call_from_the_machine() -> None:
    call, other = ir.node("add", [], domain=FUSED, num_outputs=1), ir.node("Add", [], num_outputs=1)
    assert [is_candidate(node) for node in (call, other, None)] == [True, False, False]
    note_reasons(call, because("too large"))
    assert not is_candidate(call)


def test_this_machine_is_exact() -> None:
    calls.check_oracle.__wrapped__()


def test_a_wrong_product_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "run_session", lambda *_: {"y": np.zeros((4, 8), np.int32)})
    with pytest.raises(UserError, match="E0914"):
        calls.check_oracle.__wrapped__()


def test_reference_and_oracle(tmp_path: Path) -> None:
    nodes = [n("Conv", ["x", "w"], ["a"], "one"), n("Relu", ["a"], ["b"]), n("Sin", ["b"], ["c"], "host"), n("Conv", ["c", "w"], ["y"], "two")]
    base = imported(tmp_path, nodes, constants={"w": normal(0, 3, 3, 1, 1)})
    samples = {"x": normal(1, 4, 1, 3, 4, 4)}
    model = run_passes(base, [Fuse(), Quantize()], Context(numerics=Numerics(), table=calibrate(base, samples)))
    x = {"x": samples["x"][0]}
    oracle, reference = run_oracle(model, x), run_reference(model, x, Numerics())
    names = [value.name for value in integer_tensors(model)]
    assert names == ["x.int8", "b.int8", "c.int8", "y.int8"]
    assert all(value.dtype == ir.DataType.INT8 for value in integer_tensors(model))
    assert set(oracle) == {*names, "y"}
    assert set(reference) == {"x.int8", "b.int8", "b"}
    for name in ("x.int8", "b.int8"):
        np.testing.assert_array_equal(reference[name], oracle[name])
