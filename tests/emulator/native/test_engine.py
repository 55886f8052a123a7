"""The C engine leaves the memory that the reference engine leaves, whatever an instruction's semantics say."""

from pathlib import Path

import numpy as np
import pytest

from tests.tiny_machine import stream, tiny, word
from toolchain.analysis.order import issue_order
from toolchain.analysis.state import State, new_state
from toolchain.emulator import native, reference
from toolchain.emulator.native.engine import prepare
from toolchain.isa.decode import decode
from toolchain.isa.program import Program
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine

pytestmark = pytest.mark.skipif(not native.available(), reason="no C compiler")
GOLDEN = sorted((Path(__file__).parents[2] / "data" / "vta_golden").glob("*.npz"))
PLAIN = ("-DTW_PLAIN",)
"""What a CPU without the byte instruction gets."""


def filled(machine: Machine, seed: int) -> State:
    """A state of random bytes."""
    state, rng = new_state(machine), np.random.default_rng(seed)
    for memory in state.memories.values():
        memory[:] = rng.integers(0, 256, memory.shape, np.uint8)
    for register in state.host.values():
        register[:] = rng.integers(0, 4, register.shape)
    return state


def same(a: State, b: State) -> bool:
    pairs = [(a.memories, b.memories), (a.latched, b.latched), (a.written, b.written)]
    return all(np.array_equal(x[name], y[name]) for x, y in pairs for name in x)


def compare(program: Program, state: State) -> None:
    """Reference against C."""
    other, order = state.copy(), issue_order(program)
    reference.run(program, state, order)
    native.run(program, other, order)
    for name, memory in state.memories.items():
        assert np.array_equal(memory, other.memories[name]), name
    assert same(state, other)


@pytest.mark.parametrize("flags", [(), PLAIN], ids=["best", "plain"])
@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.stem)
def test_vta_goldens(path: Path, flags: tuple[str, ...]) -> None:
    machine = load_machine("vta")
    with np.load(path) as data:
        program, state = decode(machine, [data["insns"].tobytes()]), new_state(machine)
        before, after = data["dram_before"].ravel(), data["dram_after"].ravel()
    state.memories["dram"][0, : len(before)] = before
    native.run(program, state, issue_order(program), flags)
    assert np.array_equal(state.memories["dram"][0, : len(after)], after)


TEXTS = {
    "overflow": "acc[0][o] = (1 << 31) + m\nsat[1][o] = m\n",
    "temporaries": "t[o]: wrap(i8) = m\nt[o] += acc[0][o]\nu[o]: saturate(u8) = m\nu[o] += acc[1][o]\nacc[2][o] = t[o] * u[o]\n",
    "replicas": "feat[0, 0] = dram.row[16 * way + 64 * core]\nfeat[1, a] = dram.row[4 + way]\n",
    "shared": "for i in range(n):\n    loop[0][o] = clip(loop[0][o] + 1)\none[0] = 5\n",
    "branches": "if way == 1:\n    sat[0][o] = 7\nfor i in range(way + 1):\n    acc[i][o] = 1\n    t[o]: i32 = i + way\n    sat[i][o] = t[o]\n",
    "rings": "feat[b % 2, a] = dram.row[4]\nfeat[1 - b % 2, a + 3][o] = feat[b % 2, a][3 - 1]\n",
    "past the end": "loop.wide[a][o] = loop.wide[b][o] if n > 2 else 3\nloop.wide[a + 5] = loop.wide[b + 3]\n",
    "instances": "par.core(1 - core)[0][r, c] = core + 1\n",
    "maps": "par[0][r, c] = par.turned[1][c, r]\npar.turned[2][c, r] = low8(par[0][r, c] * 3)\n",
    "records": "k = ctl[b % 4]\nacc[0][o] = k.lo * 100 + k.hi\nacc[1][o] = num[1]\nctl[a % 4] = dram.rec[b] if b > 3 else 0\n",
    "untaken": "acc[0][o] = acc[b][o] if b < 4 else 11\nacc[1][o] = acc[a][o] if a >= 0 and a < 4 else sat[2][o]\n",
    "own reads": "acc[0][o] = acc[0][3] + 1\nacc[1][o] += acc[1][2]\n",
    "iterations": "for i in range(1, n):\n    acc[i % 4][o] = acc[(i - 1) % 4][o] + 1\n",
    "carried": "top = 0\nfor i in range(n):\n    top = max(top, i * (5 - i))\nacc[0][o] = top\n",
    "reductions": "acc[0][o] = sum(par[0][r, c])\nacc[1][o] = reduce_max(par[1][r, c])\nacc[2][o] = reduce_min(par[1][r, c]) + par[1][2, o]\n",
    "rounding": "\n".join(f"acc[{i}][o] = {r}(acc[{i}][o] * 3, b)" for i, r in enumerate(("up", "even", "away", "down"))) + "\n",
    "scalars": "acc[0][o] = a // 7 + a % 7 + (a >> 2) + (a & 5) + (a ^ b) + (a | 3) + max(a, b, n) + abs(a) + ceil_div(a, n)\n",
    "lane values": "acc[0][o] = acc[0][o] * acc[1][o] - acc[2][o]\nsat[0][o] = acc[3][o] >> 5 if a > 0 else acc[3][o] * 7\n",
    "choices by data": "acc[0][o] = acc[1][o] if acc[0][o] > acc[1][o] else acc[2][o] * 2\nsat[0][o] = clip(acc[0][o]) if sat[1][o] != 3 else 9\n",
    "latched": "acc[0][o] = cfg[b % 2].m + low8(arg[1]) - cfg[b % 2].a\n",
}


AGAIN = """\
def twice(x, m):
    return sum(x * m) + m
def found(x, m):
    return lookup(x * m, m & 3) + m
"""


@pytest.mark.parametrize(
    "text",
    [
        "acc[0][o] = twice(par[0][r, o] + 1, reduce_max(sat[0][k]))\n",
        "acc[1][o] = twice(par[0][r, o], lookup(sat[0][k], acc[0][o] & 3))\n",
        "acc[2][o] = found(sat[1][k], lookup(sat[0][j], acc[0][o] & 3))\n",
    ],
)
def test_a_reduction_inside_another_is_one_outside_too(text: str) -> None:
    _equal(tiny(text, AGAIN))


@pytest.mark.drawn(8)
@pytest.mark.parametrize("name", TEXTS)
def test_equals_reference(name: str) -> None:
    _equal(tiny(TEXTS[name]))


def _equal(machine: Machine) -> None:
    rng = np.random.default_rng(5)
    for seed in range(4):
        limits = {"a": (-128, 128), "b": (0, 64), "n": (1, 17), "m": (-2048, 2048)}
        some = [{name: int(rng.integers(*limit)) for name, limit in limits.items()} for _ in range(6)]
        words = [word(1, b=0, m=seed), word(1, b=1, m=-seed), *(word(0, **fields) for fields in some)]
        compare(decode(machine, [stream(*words), stream(*words[:4])]), filled(machine, seed))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("acc[b][o] = 1\n", "E0701"), ("feat[b, 0][o] = 1\n", "E0701"), ("acc[0][o] = sat[a][o]\n", "E0701"), ("par.core(b)[0][r, c] = 1\n", "E0701"),
        ("acc[0][o] = num[b]\n", "E0701"), ("acc[0][o] = cfg[0].m\n", "E0702"), ("acc[0][o] = arg[b]\n", "E0701"),
    ],
)  # fmt: skip
def test_faults_name_the_instruction(text: str, code: str) -> None:
    machine = tiny(text)
    program = decode(machine, [stream(word(1, b=1)), stream(word(0, a=-3, b=60))])
    with pytest.raises(UserError, match=rf"#2 OP at 0x0 of stream 1: {code}"):
        native.run(program, new_state(machine), np.arange(len(program)))


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CC", "none")
    assert not native.available()
    with pytest.raises(UserError, match="E0711"):
        prepare(load_machine("vta"))


def test_a_compiler_that_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "cc"
    broken.write_text('#!/bin/sh\n[ "$1" = --version ] && { echo broken 1; exit 0; }\necho "no such thing" >&2\nexit 1\n')
    broken.chmod(0o755)
    monkeypatch.setenv("TILEWRIGHT_CC", str(broken))
    with pytest.raises(UserError, match=r"E0710(.|\n)*no such thing"):
        prepare(load_machine("vta"))


def test_the_first_error_stops_the_program() -> None:
    machine = tiny("acc[b][o] = 1\n")
    program, state = decode(machine, [stream(word(0, b=1), word(0, b=9), word(0, b=2)), stream()]), new_state(machine)
    with pytest.raises(UserError, match="#1 OP"):
        native.run(program, state, np.arange(len(program)))
    acc = state.memories["acc"].view(np.int32).reshape(4, 4, 4)
    assert acc[0, 1].tolist() == [1] * 4
    assert not acc[:, 2].any()
