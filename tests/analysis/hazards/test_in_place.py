"""Which instructions read what another of their own iterations writes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tiny_machine import streams, tiny, word
from toolchain.analysis.footprints import footprints
from toolchain.analysis.hazards.in_place import overlapping, self_conflicts
from toolchain.analysis.queues.order import issue_order
from toolchain.analysis.state import new_state
from toolchain.isa.binary.decode import decode
from toolchain.isa.footprint.footprints import Runs, merge_runs
from toolchain.isa.footprint.provenance import Provenance

CASES = [
    ("for i in range(n):\n    acc[i % 4][c] += 1", {"n": 4}, False),
    ("for i in range(n):\n    acc[i % 4][c] += 1", {"n": 5}, True),
    ("for i in range(n), j in range(2):\n    acc[i % 4][c] += 1", {"n": 1}, True),
    ("for i in range(n):\n    feat[0, i] = feat[0, i + b]", {"n": 4, "b": 4}, False),
    ("for i in range(n):\n    feat[0, i] = feat[0, i + b]", {"n": 4, "b": 3}, True),
    ("for i in range(n):\n    feat[0, i] = feat[0, i + b]", {"n": 4, "b": 0}, False),
    ("for i in range(n):\n    feat[0, i] = feat[1, i + b]", {"n": 8, "b": 1}, False),
    ("for i in range(n):\n    if i % 2 == 0:\n        feat[0, i] = feat[0, i + b] if i != 2 else 0", {"n": 4, "b": 2}, True),
    ("for i in range(n):\n    if i % 2 == 0:\n        feat[0, i] = feat[0, i + b] if i == 2 else 0", {"n": 4, "b": 2}, False),
]


@pytest.mark.parametrize(("semantics", "fields", "conflict"), CASES)
def test_conflicts(semantics: str, fields: dict[str, int], conflict: bool) -> None:
    machine = tiny(semantics)
    for in_place in (False, True):
        changed = replace(machine, instructions=tuple(replace(i, in_place=in_place) for i in machine.instructions))
        program = decode(changed, streams([word(0, **fields)]))
        order, state = issue_order(program), new_state(changed)
        prints = footprints(program, state, order)
        found = self_conflicts(Provenance(program, state, order), prints)
        assert [d.code for d in found] == ["E0609"] * (conflict and not in_place)
        assert np.all(prints.runs.instruction == 0)


RUN = st.tuples(st.integers(0, 3), st.integers(0, 2), st.booleans(), st.integers(0, 12), st.integers(1, 5))


@given(st.lists(RUN, max_size=12), st.sampled_from([1, 1 << 40]))
def test_overlapping_is_reading_a_granule_that_is_written(drawn: list[tuple[int, int, bool, int, int]], scale: int) -> None:
    granules = {(i, m, w, (start + k)) for i, m, w, start, size in drawn for k in range(size)}
    wanted = sorted({i for i, m, w, place in granules if w and (i, m, False, place) in granules})
    columns = np.array([(i << 8 if scale > 1 else i, m, w, start * scale, (start + size) * scale) for i, m, w, start, size in drawn], np.int64)
    instruction, memory, write, start, stop = columns.reshape(-1, 5).T
    runs = merge_runs(Runs(instruction, memory, write.astype(np.bool_), start, stop))
    assert overlapping(runs).tolist() == [i << 8 if scale > 1 else i for i in wanted]
