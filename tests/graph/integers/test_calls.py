"""Calls of fused operations, as passes ask after them."""

import onnx_ir as ir

from tests.reasons import because
from toolchain.graph.integers.calls import is_candidate, note_reasons
from toolchain.graph.integers.functions import FUSED


def test_a_reason_keeps_a_call_from_the_machine() -> None:
    call, other = ir.node("add", [], domain=FUSED, num_outputs=1), ir.node("Add", [], num_outputs=1)
    assert [is_candidate(node) for node in (call, other, None)] == [True, False, False]
    note_reasons(call, because("too large"))
    assert not is_candidate(call)
