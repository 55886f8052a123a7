"""Reads of elements that another iteration of the same instruction writes; pipelines against a walk step by step."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiny_machine import streams, tiny, word
from toolchain.analysis.checks import check_program
from toolchain.analysis.footprints import footprints
from toolchain.analysis.in_place import overlapping, repeats, self_conflicts
from toolchain.analysis.order import issue_order
from toolchain.analysis.state import new_state
from toolchain.isa.assembly import assemble
from toolchain.isa.check_machine import check_machine
from toolchain.isa.decode import decode
from toolchain.isa.footprint.footprints import Runs, merge_runs
from toolchain.isa.footprint.provenance import Provenance
from toolchain.isa.program import Program
from toolchain.spec.errors import Source, UserError
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine, Pipelined

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


NEST = """
for i in range(n), j in range(b):
    s = (a + i * m + j * 2) % 4
    d = (a + i * 3 + j * m) % 4
    if i != j:
        acc[d][c] = acc[s][c] + 1
"""


def pipelined(semantics: str, apart: int, hazard: str = "error", memory: str = "acc") -> Machine:
    machine = tiny(semantics)
    rule = Pipelined((memory,), apart, hazard)
    return replace(machine, instructions=tuple(replace(i, pipelined=rule) if i.name == "OP" else i for i in machine.instructions))


def found(program: Program) -> dict[int, tuple[int, int, int]]:
    rows = repeats(Provenance(program, new_state(program.machine), issue_order(program)))
    return {int(i): (int(a), int(b), int(g)) for i, a, b, g in zip(rows.instruction, rows.first, rows.second, rows.granule, strict=True)}


def walked(a: int, b: int, n: int, m: int, apart: int) -> tuple[int, int] | None:
    """The first step that touches what one of those before it wrote, and how many steps before; by NEST's own text."""
    wrote: dict[int, int] = {}
    for step, (i, j) in enumerate(np.ndindex(n, b)):
        if i != j:
            s, d = (a + i * m + j * 2) % 4, (a + i * 3 + j * m) % 4
            before = [wrote[e] for e in (s, d) if e in wrote and step - wrote[e] <= apart]
            if before:
                return max(before), step
            wrote[d] = step
    return None


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 6), st.integers(1, 6), st.integers(-3, 3)), min_size=1, max_size=5), st.integers(1, 5))
def test_it_finds_the_first_step_that_comes_too_soon(fields: list[tuple[int, int, int, int]], apart: int) -> None:
    program = decode(pipelined(NEST, apart), streams([word(0, a=a, b=b, n=n, m=m) for a, b, n, m in fields]))
    expected = {k: step for k, (a, b, n, m) in enumerate(fields) if (step := walked(a, b, n, m, apart))}
    told = {index: (first, second) for index, (first, second, _) in found(program).items()}
    assert {index: second for index, (_, second) in told.items()} == {index: second for index, (_, second) in expected.items()}
    assert all(1 <= second - first <= apart for first, second in told.values())


def test_many_instructions_are_looked_at_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    program = decode(pipelined(NEST, 2), streams([word(0, a=k % 7, b=k % 5, n=k % 6 + 1, m=k % 3) for k in range(200)]))
    whole = found(program)
    assert 20 < len(whole) < 200
    monkeypatch.setattr("toolchain.analysis.in_place.LIMIT", 7)
    assert found(program) == whole


def test_an_instruction_of_too_many_steps_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolchain.analysis.in_place.LONGEST", 35)
    with pytest.raises(UserError, match="E0611 #0 OP at 0x0 of stream 0 has 36 steps, more than the checks follow"):
        found(decode(pipelined(NEST, 2), streams([word(0, b=6, n=6)])))


@pytest.mark.parametrize(
    ("semantics", "reason"),
    [
        ("for i in range(n):\n    acc[i] = 0\nfor j in range(n):\n    acc[j][c] += 1", "do not stand in the same loops"),
        ("acc[b % 4] = 0", "do not stand in the same loops"),
        ("for i in range(n), j in range(i):\n    acc[j] = 0", "stand in loops whose bounds depend on each other"),
        ("for i in range(n):\n    sat[i % 4][c] = saturate(acc[0][c], i8)", "write nothing"),
    ],
)
def test_steps_must_be_countable(semantics: str, reason: str) -> None:
    with pytest.raises(UserError, match=rf"E0225 the accesses of OP to 'acc' {reason}"):
        check_machine(pipelined(semantics, 2))


def test_what_lockstep_copies_share_has_no_step_of_its_own() -> None:
    with pytest.raises(UserError, match="E0225 the accesses of OP to 'par' go to what lockstep copies share"):
        check_machine(pipelined("for i in range(n):\n    par[(i + way) % 4] = 0", 2, memory="par"))


UOPS = "LOAD memory_type=uop sram_base=0 dram_base=1024 y_size=1 x_size=1 x_stride=1\n"
CLEAR = "GEMM reset=1 uop_bgn=0 uop_end=1 iter_out=2 iter_in=2 dst_factor_out={} dst_factor_in=1"
OTHERS = " ".join(f"{name}_factor_{loop}=0" for name in ("src", "wgt") for loop in ("out", "in"))


@pytest.mark.parametrize(("apart", "step", "told"), [(0, 0, 0), (1, 1, 1), (1, 0, 0), (2, 0, 1), (2, 2, 0)])
def test_the_accumulators_of_a_matrix_product(apart: int, step: int, told: int) -> None:
    """dst goes 0 1, then step, step + 1: again after one other step where that is 0, at once where it is 1."""
    machine = load_machine("vta", overrides={"APART": str(apart)})
    program = assemble(machine, Source("case.asm", f"{UOPS}{CLEAR.format(step)} {OTHERS}\nFINISH"))
    checked = check_program(program, new_state(machine))
    assert [(d.code, d.severity) for d in checked.warnings] == [("E0612", "warning")] * told
    assert checked.tolerated == ({"E0612": 1} if told else {})
    if told:
        wrote, after = (1, "the next step touches it") if step else (0, "step 2 touches it")
        assert f"#1 GEMM at 0x10 writes acc[{wrote}] in step {wrote}, and {after}: its pipeline needs {apart} or more" in checked.warnings[0].message


def test_an_error_forbids_the_run() -> None:
    program = decode(pipelined("for i in range(n):\n    acc[0] = 0", 1), streams([word(0, n=2)]))
    with pytest.raises(UserError, match="E0612 #0 OP at 0x0 of stream 0 writes acc"):
        check_program(program, new_state(program.machine))
