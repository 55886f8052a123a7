"""Differences of machines as lines of paths."""

from tests.spec.small import small
from toolchain.spec.diff import diff


def test_same() -> None:
    assert diff(small(), small()) == ()


def test_values_and_absence() -> None:
    doc = (", depth: 64, overflow: wrap", ", depth: 64, overflow: wrap, doc: x")
    other = small(("type: code_t, depth: 16", "type: code_t, depth: 8"), ("twice(3)", "twice(4)"), doc)
    assert diff(small(), other) == (
        "memories.codes.depths: [16] -> [8]",
        "instructions.CALC.semantics:3:     sums[k.dst][c] += rows[k.src][c] * twice(3) ->     sums[k.dst][c] += rows[k.src][c] * twice(4)",
        "memories.sums.doc: (nothing) -> x",
    )


def test_configurations() -> None:
    lines = diff(small(), small(config="wide"))
    assert lines[:3] == ("target.config:  -> wide", "params.LANES: 4 -> 8", "params.MODE: fast -> exact")
    assert "memories.rows.element: i8[4] -> i8[8]" in lines
