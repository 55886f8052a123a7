"""Every mistake the semantics language knows, with the message a user reads."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.tiny_machine import DOUBLE, tiny
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.spec.errors import UserError

TWO = "def two(x):\n    half = x // 2\n    return half, x - half\n"
CASES = {
    "syntax": "acc[0][o] = = 1\n",
    "indentation": "if a:\nacc[0][o] = 1\n",
    "unknown name": "acc[0][o] = aa\n",
    "unknown memory": "ac[0][o] = 1\n",
    "memory as a number": "acc[0][o] = sat\n",
    "unknown member": "acc[0][o] = ctl[0].low\n",
    "unknown field of a register": "acc[0][o] = cfg[0].mm\n",
    "register index past its depth": "acc[0][o] = cfg[2].m\n",
    "register without a field": "acc[0][o] = cfg[0]\n",
    "not a statement": "while a:\n    pass\n",
    "expression statement": "a + 1\n",
    "minus assignment": "acc[0][o] -= 1\n",
    "call of a method": "acc[0][o] = a.bit_length()\n",
    "string": "acc[0][o] = 'a'\n",
    "comprehension": "acc[0][o] = [i for i in range(3)]\n",
    "loop over a list": "for i in (1, 2):\n    pass\n",
    "loop with a step": "for i in range(0, n, 2):\n    pass\n",
    "loop head that is no loop": "for i in range(n), j == 3:\n    pass\n",
    "loop else": "for i in range(n):\n    pass\nelse:\n    pass\n",
    "loop named like a field": "for b in range(n):\n    pass\n",
    "loop named like a loop": "for i in range(n), i in range(n):\n    pass\n",
    "local named like a field": "m = 3\n",
    "local named like a memory": "sat = 3\n",
    "local named like a level": "way = 3\n",
    "lane named like a field": "acc[0][b] = 1\n",
    "lane of a temporary named like a field": "s[b]: i32 = 0\n",
    "temporary declared twice": "s[o]: i32 = 0\ns[o]: i64 = 0\nacc[0][o] = s[o]\n",
    "lane dimensions": "acc[0][o, c] = 1\n",
    "lane of two lengths": "par[0][o, c] = 1\nacc[0][o] = 1\n",
    "lane left over": "acc[0][o] = par[0][r, o]\n",
    "lane without a length": "s[z]: i32 = 0\n",
    "temporary with other lanes": "s[o]: i32 = 0\nacc[0][q] = s[q]\n",
    "lane written twice": "loop.pair[0][c, c] = 1\n",
    "lane outside": "acc[0][4] = 1\n",
    "one index for a bank and an address": "feat[0][o] = 1\n",
    "two indices": "acc[0, 1][o] = 1\n",
    "unknown level": "par.cores(0)[0][r, c] = 1\n",
    "level that a memory is not in": "par.way(0)[0][r, c] = 1\n",
    "register takes fields": "cfg[0] = 3\n",
    "register of another instruction": "cfg[0] = fields\n",
    "register of the host": "arg[0] = fields\n",
    "memory without an address": "acc = 3\n",
    "count of values": "x, y, z = two(a)\n",
    "one name for two values": "x = two(a)\n",
    "two values in an expression": "acc[0][o] = two(a) + 1\n",
    "values from no function": "x, y = a, b\n",
    "same name twice": "x, x = two(a)\n",
    "unknown function": "acc[0][o] = doubl(a)\n",
    "count of arguments": "acc[0][o] = double(a, b)\n",
    "count of arguments of a rule": "acc[0][o] = up(a)\n",
    "keyword argument": "acc[0][o] = double(x=a)\n",
    "data decides an address": "acc[sat[0][0]][o] = 1\n",
    "data decides an address inside": "sat[0][o] = clip(sat[one[0]][o])\n",
    "data decides a branch": "if one[0] > 3:\n    pass\n",
    "data decides a bound": "for i in range(one[0]):\n    pass\n",
    "data in a local name": "x = one[0]\n",
    "data in a lane": "acc[0][one[0] % 4] = 1\n",
    "data through a function": "x, y = two(one[0])\n",
    "record of tensor data": "k = dram.rec[0]\nacc[0][o] = k.lo\n",
    "tensor view of a control memory in an address": "acc[0][o] = ctl[sat[0][0]].lo\n",
    "used before it is assigned": "acc[0][o] = x\nx = 3\n",
    "assigned on one path": "if a > 0:\n    x = 3\nacc[0][o] = x\n",
    "assigned in a loop that may not run": "for i in range(a):\n    x = i\nacc[0][o] = x\n",
    "sum that never began": "top = top + 1\n",
    "temporary on one path": "if a > 0:\n    s[o]: i32 = 3\nacc[0][o] = s[o]\n",
    "record on one path": "if a > 0:\n    k = ctl[0]\nacc[0][o] = k.lo\n",
    "reduce over nothing": "acc[0][o] = sum(acc[0][o])\n",
    "reduce a number": "x = sum(a)\n",
    "reduce twice": "acc[0][o] = sum(dot(par[0][r, o], par[1][r, o]))\n",
    "lane reduced inside and outside": "acc[0][o] = dot(reduce_max(par[0][r, o]), par[0][r, c])\n",
    "two lanes looked up": "acc[0][o] = lookup(par[0][r, c], 0)\n",
    "nothing looked up": "acc[0][o] = lookup(par[0][0, o], 0)\n",
    "looked up past the lane": "acc[0][o] = lookup(sat[0][c], sat[1][o])\n",
    "looked up at a fraction": "acc[0][o] = lookup(sat[0][c], f32(a))\n",
    "whole element of another size": "acc[0] = sat[0]\n",
    "whole element in a sum": "acc[0][o] = acc[1] + 1\n",
    "number to a whole element": "sat[0] = 3\n",
    "sum into a whole element": "sat[0] += sat[1]\n",
    "calculated data in a control memory": "num[0] = one[0] + 1\n",
    "sum in a control memory": "num[0] += 1\n",
    "shared write of a replica's value": "one[0] = way\n",
    "shared write on a replica's path": "if way == 0:\n    one[0] = 1\n",
    "shared write of a replica's data": "s[o]: i8 = sat[0][o]\nloop[0][o] = s[o]\n",
    "deep expression": "acc[0][o] = " + "-" * 60 + "a\n",
    "deep parentheses": "acc[0][o] = " + "(" * 300 + "a" + ")" * 300 + "\n",
    "deep loops": "".join(f"{'    ' * d}for i{d} in range(2):\n" for d in range(14)) + "    " * 14 + "pass\n",
    "value past a type": "loop[0][o] = a * 2\n",
    "value past 64 bits": "acc[0][o] = arg[0] + 1\n",
    "sum past a type": "s[o]: i8 = 0\nfor i in range(n):\n    s[o] += sat[0][o]\nacc[0][o] = s[o]\n",
    "shift by a negative amount": "acc[0][o] = 1 << a\n",
    "division by zero": "acc[0][o] = 5 // b\n",
}
TWICE = "".join(f"def e{i}(x):\n    return e{i - 1}(e{i - 1}(x))\n\n" for i in range(1, 6))
GROWING = "def e0(x):\n    return x + x\n\n" + TWICE + "def f(x):\n    return e5(x)\n"
FUNCTION_CASES = {
    "recursion": "def f(x):\n    return f(x - 1)\n",
    "recursion of two": "def f(x):\n    return g(x)\n\ndef g(x):\n    return f(x)\n",
    "growing without bound": GROWING,
    "name of the caller": "def f(x):\n    return x + b\n",
    "no return": "def f(x):\n    y = x\n",
    "return in a branch": "def f(x):\n    if x:\n        return x\n",
    "branch": "def f(x):\n    if x:\n        return 1\n    return 2\n",
    "default": "def f(x=1):\n    return x\n",
    "not a function": "x = 1\n",
    "named like a built-in function": "def dot(x):\n    return x\n\ndef f(x):\n    return x\n",
    "named twice": "def f(x):\n    return x\n\ndef f(x):\n    return x\n",
    "unknown name": "def f(x):\n    return x + yy\n",
}  # fmt: skip


PROCEDURE_CASES = {
    "too few arguments": "p(a)\n",
    "calls itself": "p(a, n)\n",
    "tensor data": "p(a, acc[0][0])\n",
    "a value": "one[0] = p(a, n)\n",
    "a name of a procedure": "q(n)\none[0] = i\n",
    "a loop of the caller": "for i in range(n):\n    q(n)\n",
}
PROCEDURES = "def p(x, y):\n    p(x, y)\n\ndef q(x):\n    for i in range(x):\n        one[i % 4] = i\n"


def message(semantics: str, functions: str = DOUBLE + "\n" + TWO) -> str:
    """What a user reads."""
    with pytest.raises(UserError) as caught:
        machine_semantics(tiny(semantics, functions))
    return str(caught.value)


def test_messages(golden: Callable[[str, str], None]) -> None:
    golden("isa/semantics_errors.txt", "\n\n".join(f"{name}\n{message(text)}" for name, text in CASES.items()) + "\n")


def test_messages_in_functions(golden: Callable[[str, str], None]) -> None:
    texts = [f"{name}\n{message('acc[0][o] = f(a)' + chr(10), text)}" for name, text in FUNCTION_CASES.items()]
    golden("isa/function_errors.txt", "\n\n".join(texts) + "\n")


@pytest.mark.parametrize("text", [*CASES.values()], ids=[*CASES])
def test_every_message_stands_in_the_text(text: str) -> None:
    with pytest.raises(UserError) as caught:
        machine_semantics(tiny(text, DOUBLE + "\n" + TWO))
    for found in caught.value.diagnostics:
        assert found.span is not None
        assert 1 <= found.span.column <= len(found.span.source.line(found.span.line)) + 1


@pytest.mark.parametrize("text", ["acc[0][o] = 1\n", "one[way] = 1\n"])
def test_instruction_without_a_place_at_a_level(text: str) -> None:
    machine = tiny(text)
    apart = replace(machine, levels=tuple(replace(level, lockstep=False) for level in machine.levels))
    with pytest.raises(UserError, match=r"E0219 an instruction does not run on one way; say which: .way\(number\)"):
        machine_semantics(apart)


def test_messages_about_procedures(golden: Callable[[str, str], None]) -> None:
    texts = [f"{name}\n{message(text, PROCEDURES)}" for name, text in PROCEDURE_CASES.items()]
    golden("isa/procedure_errors.txt", "\n\n".join(texts) + "\n")
