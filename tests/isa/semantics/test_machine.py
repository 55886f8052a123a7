import re
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiny_machine import tiny
from tests.tiny_semantics import SWAP
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine


def test_read_once_for_machines_that_mean_the_same() -> None:
    machine = tiny("pass\n")
    assert machine_semantics(machine) is machine_semantics(machine)
    assert machine_semantics(machine) is machine_semantics(replace(machine, timing=replace(machine.timing)))
    assert machine_semantics(machine) is not machine_semantics(replace(machine, params={**machine.params}))


def test_every_instruction_has_semantics_and_every_access_its_number() -> None:
    for name in ("vta", "dpuv3"):
        machine = load_machine(name)
        found = machine_semantics(machine)
        assert list(found) == [i.name for i in machine.instructions]
        for semantics in found.values():
            assert [access.number for access in semantics.accesses] == list(range(len(semantics.accesses)))


BASE = """\
k = ctl[b % 4]
p, q = split(a)
for i in range(n), j in range(1, 4):
    s[o]: wrap(i32) = dot(par[i % 4][r, o], par.core(1 - core)[j][r, c]) + cfg[b % 2].m * k.lo
    if i > 2:
        acc[p % 4][o] = clip(even(s[o], 3)) if m else low8(s[o])
sat[1] = sat[2] if a > 0 else 0
"""
WORDS = re.findall(r"[A-Za-z_0-9]+|[-+*/%<>=:,.()\[\]]|\n *| +", BASE)
PIECES = [*dict.fromkeys(WORDS), "way", "arg[1]", "num[0]", "~", "<<", "not ", "9" * 30, "lambda", "'", "sum(", "fields", "up(", "\t", "#"]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(WORDS) - 1), st.sampled_from(PIECES)), min_size=1, max_size=3))
def test_mutated_semantics_are_read_or_refused_with_a_place(changes: list[tuple[int, str]]) -> None:
    words = list(WORDS)
    for place, piece in changes:
        words[place] = piece
    assert outcome("".join(words)) in ("read", "refused")


def outcome(semantics: str) -> str:
    """What becomes of a text: `read`, `refused` with a place, or `lost` when an error says neither where nor which."""
    try:
        machine_semantics(tiny(semantics, SWAP))
    except UserError as error:
        return "refused" if all(d.code[:3] in ("E01", "E02") and d.span for d in error.diagnostics) else "lost"
    return "read"
