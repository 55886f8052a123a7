from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.tiny_machine import DOUBLE, tiny
from toolchain.isa.semantics import machine_semantics, read_semantics
from toolchain.isa.semantics_unparse import unparse_semantics
from toolchain.spec.load import list_targets, load_machine
from toolchain.spec.model import Machine, Text

HALVES = DOUBLE + "\ndef halves(x):\n    half = x // 2\n    return half, x - half\n"
TEXTS = {
    "all leaves": """\
k = ctl[b % 4]
p, q = halves(a)
for i in range(n), j in range(1, n + 1):
    s[o]: wrap(i32) = dot(par[i % 4][r, o], par.core(1 - core)[j % 4][r, c]) + cfg[b % 2].m * k.lo
    s[o] += sum(par[0][r, o]) - low8(arg[1])
    acc[p % 4][o] = clip(even(s[o], 3)) if not (a < 0 or m > 3) else away(max(s[o], q), 2)
    acc[0][o] += wrap(-s[o], u4) ^ ~(i << 2)
""",
    "branches": """\
if a < 0:
    s[o]: i8 = 1
elif a == 0:
    s[o]: i8 = 2
else:
    s[o]: i8 = num[3] & 15
s[o] = min(s[o], 5)
sat[0][o] = s[o]
""",
    "copies": "ctl[a] = dram.rec[b] if b > 3 else 0\none[1] = 3\nfeat[b % 2, -a] = dram.row[b]\n",
    "nothing": "pass\n",
    "a branch that does nothing": "if a:\n    pass\nelse:\n    one[0] = a\n",
    "running names": "x, y = halves(a)\nx, y = halves(x + y)\ny += x\nacc[0][o] = x - (y - 1)\n",
    "same names in two loops": "for i in range(n):\n    one[i % 4] = 1\nfor i in range(2):\n    one[i] = i\ni_1 = 3\none[i_1] = 0\n",
}


def again(machine: Machine, name: str, text: str) -> str:
    """The canonical text of a canonical text."""
    instruction = machine.instruction[name]
    return unparse_semantics(read_semantics(machine, replace(instruction, semantics=Text(text, instruction.semantics.span, 0))))


@pytest.mark.parametrize("target", sorted(list_targets()))
def test_canonical_text_of_every_machine_reads_as_itself(target: str) -> None:
    machine = load_machine(target)
    for name, semantics in machine_semantics(machine).items():
        text = unparse_semantics(semantics)
        assert again(machine, name, text) == text


@pytest.mark.parametrize("source", [*TEXTS.values()], ids=[*TEXTS])
def test_canonical_text_reads_as_itself(source: str) -> None:
    machine = tiny(source, HALVES)
    text = unparse_semantics(machine_semantics(machine)["OP"])
    assert again(machine, "OP", text) == text


def test_canonical_texts(golden: Callable[[str, str], None]) -> None:
    texts = [f"# {name}\n{unparse_semantics(machine_semantics(tiny(source, HALVES))['OP'])}" for name, source in TEXTS.items()]
    golden("isa/semantics_unparse.txt", "\n".join(texts))


def test_same_tree_where_no_element_has_a_name() -> None:
    machine = load_machine("stcp920")
    for name, semantics in machine_semantics(machine).items():
        instruction = machine.instruction[name]
        text = Text(unparse_semantics(semantics), instruction.semantics.span, 0)
        assert read_semantics(machine, replace(instruction, semantics=text)).body == semantics.body
