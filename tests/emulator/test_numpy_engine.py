from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.workloads import OUTPUT, c2_expected, resnet18_c2
from tests.emulator.reference.test_engine import GOLDEN, vta_result
from tests.random_programs import random_state
from tests.tiny_machine import streams, tiny, word
from toolchain.analysis.order import issue_order
from toolchain.analysis.state import State, new_state
from toolchain.emulator import numpy_engine, reference
from toolchain.emulator.numpy_engine import run
from toolchain.isa.decode import decode
from toolchain.isa.program import Ints, Program
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.stem)
def test_vta_goldens(path: Path) -> None:
    assert vta_result(path, issue_order, run)


def test_the_layer_of_the_bench_twice_on_other_data() -> None:
    work = resnet18_c2(seed=3)
    for seed in (3, 4):
        state = resnet18_c2(seed).state
        expected = c2_expected(state.memories["dram"][0])
        run(work.program, state, issue_order(work.program))
        found = state.memories["dram"][0, OUTPUT : OUTPUT + expected.size].view(np.int8).reshape(expected.shape)
        assert np.array_equal(found, expected)


SEMANTICS = {
    "sums that wrap": "for i in range(n), j in range(b):\n    acc[i % 4][o] += feat[b % 2, a + i * j][o] * m * 4096\n",
    "sums that saturate depend on their order": "for i in range(n):\n    sat[i * b % 4][o] += feat[0, a + i][o] * m\n",
    "each iteration needs the one before": "for i in range(n):\n    acc[(b + i + 1) % 4][o] = acc[(b + i) % 4][o] + feat[1, i][o]\n",
    "sums of sums": "for i in range(n), j in range(2):\n    acc[(b + i) % 4][o] += acc[(b + i + 1 + j) % 4][o]\n",
    "reads before writes": "for i in range(n):\n    acc[i % 4][o] = acc[(i + 1 + b) % 4][o] - m\n",
    "two stores": "for i in range(n):\n    feat[0, i + a][o] = 1\n    feat[0, b + 2 * i][o] = feat[0, i * m][o]\n",
    "reads ahead of writes": "for i in range(n):\n    feat[0, i][o] = m % 100\n    sat[i % 4][o] = feat[0, i + 1 + b % 2][o]\n",
    "elements across the end of a ring": "for i in range(n):\n    loop.wide[a + i * b][w] = loop.wide[a * i + m][w]\n",
    "some lanes of an element": (
        "for i in range(n):\n    sat[b % 4][i * a % 4] = feat[0, a + i][0]\n"
        "    acc[i % 4][o] += par.turned[(i + a) % 4][o, b % 3] + sat[(b + i) % 4][i % 4]\n"
    ),
    "loops of different lengths": "for i in range(n), j in range(i - 2, b % 8):\n    acc[j % 4][o] += feat[1, i * j][o] + j\n",
    "a running maximum": "top = 0\nfor i in range(n):\n    top = max(top, i * a % 7)\n    acc[(top + i) % 4][o] = top + i\n",
    "a maximum of what takes part": (
        "for i in range(n):\n    t[o]: i16 = m\n    for j in range(b):\n        if (i + j) % 3 == 0:\n"
        "            t[o] = max(t[o], feat[0, i + j * a][o])\n    acc[i % 4][o] = t[o]\n"
    ),
    "a temporary handed on": "t[o]: wrap(i32) = m\nfor i in range(n):\n    t[o] = t[o] * 3 - feat[0, i + a][o]\n    acc[i % 4][o] = t[o]\n",
    "a temporary kept where nothing sets it": (
        "for i in range(n):\n    t[o]: i32 = i\n    if (i + b) % 2 == 0:\n        t[o] = feat[0, i][o]\n    acc[i % 4][o] = t[o]\n"
    ),
    "roundings": (
        "for i in range(n):\n    acc[i % 4][o] = up(feat[0, a + i][o] * m, b % 9) + even(feat[1, i][o] * m, b % 9)\n"
        "    sat[i % 4][o] = away(feat[0, a + i][o] * m, b % 9) - down(feat[1, i][o], b % 3)\n"
    ),
    "narrowing": "for i in range(n):\n    acc[i % 4][o] = clip(feat[0, i][o] * m) * low8(feat[1, a + i][o] + m)\n",
    "shifts by data": (
        "for i in range(n):\n    acc[i % 4][o] = m << feat[0, a + i][o] % 8 if feat[0, a + i][o] > 0 else m >> -feat[0, a + i][o] % 8\n"
    ),
    "records": "for i in range(n):\n    k = ctl[(i + b) % 4]\n    acc[k.lo % 4][o] += k.hi * feat[0, k.lo + a][o]\n",
    "records written and read": "for i in range(n):\n    ctl[i % 4] = dram.rec[b * 2 + i]\n    acc[ctl[(i + 1) % 4].lo % 4][o] += m\n",
    "scalars of a control memory": "for i in range(n):\n    acc[num[(i + b) % 4] % 4][o] = num[i % 4] + m\n",
    "both sides of a branch": (
        "for i in range(n):\n    if (i + b) % 2 == 0:\n        acc[i % 4][o] = m\n        if i > b:\n            sat[i % 4][o] = 1\n        else:\n"
        "            sat[i % 4][o] = 2\n    else:\n        acc[i % 4][o] += feat[0, i + a][o]\n"
    ),
    "products": (
        "for i in range(n), j in range(b):\n    t[k]: i32 = dot(par[(i + j) % 4][k, c], feat[0, j + a][c])\n"
        "    acc[i % 4][o] += sum(t[k]) + feat[1, i][o]\n"
    ),
    "products of some": (
        "for i in range(n):\n    t[k]: wrap(i32) = m\n    for j in range(b):\n        if j % 3 != i % 2:\n"
        "            t[k] += dot(par[j % 4][k, c], feat[0, j * i + a][c])\n    acc[i % 4][o] = sum(t[k])\n"
    ),
    "products added to few elements": (
        "for i in range(n), j in range(8):\n    acc[j // 2 % 4][o] += dot(feat[1, j % 2 + b % 2][c], feat[0, i + j][c])\n"
    ),
    "some products added to few elements": (
        "for i in range(n), j in range(8):\n    if (i + j) % 3 != b % 2:\n"
        "        acc[j % 3][o] += dot(feat[1, j % 4][c], feat[0, i][c])\n"
        "        acc[j // 4 + m % 2][o] += dot(feat[1, j % 4][c], feat[0, i + j][c])\n"
    ),
    "replicas share a memory": "for i in range(n):\n    dram.row[64 + i * 2 + way * b] = feat[0, i + a]\n",
    "replicas read what the one before wrote": "for i in range(n):\n    dram.row[64 + i + way * 2] = dram.row[60 + b + way]\n",
    "another instance": "for i in range(n):\n    par.core((i + b) % 2)[i % 4][k, o] = par.core(a % 2)[(i + 1) % 4][k, o] + 0\n",
    "untaken sides may be illegal": "for i in range(n):\n    acc[i % 4][o] = par[i][0, o] if i < 4 else par[i - 4 if i < 8 else 0][1, o]\n",
    "outside": "for i in range(n):\n    acc[i % 5 + b][o] = m\n",
    "registers": "for i in range(n):\n    acc[i % 4][o] = cfg[(i + b) % 2].m\n",
    "host registers": "for i in range(n):\n    acc[(arg[i % 2] + i) % 4][o] += arg[b % 2] % 1000\n",
}


def outcome(program: Program, seed: int, engine: str) -> tuple[str, State]:
    """The code of the error, if there is one, and the state that is left."""
    state = random_state(program.machine, seed)
    try:
        (reference if engine == "reference" else numpy_engine).run(program, state, issue_order(program))
    except UserError as error:
        return error.diagnostics[0].code, state
    return "", state


@pytest.mark.drawn(20)
@pytest.mark.parametrize("ways", [1, 2])
@pytest.mark.parametrize("semantics", list(SEMANTICS.values()), ids=list(SEMANTICS))
def test_same_as_the_reference(semantics: str, ways: int) -> None:
    machine = tiny(semantics, ways=ways)
    rng = np.random.default_rng(len(semantics))
    finished = 0
    for seed in range(6):
        words = [
            word(0, *(int(rng.integers(low, high)) for low, high in ((-128, 128), (0, 64 if seed % 3 == 0 else 6), (1, 17), (-2048, 2048))))
            for _ in range(3)
        ]
        program = decode(machine, streams([*(sets := [word(1, m=seed), word(1, b=1, m=-seed)] if seed % 4 else []), *words[:2]], [*sets, *words[2:]]))
        expected, found = outcome(program, seed, "reference"), outcome(program, seed, "numpy")
        assert found[0] == expected[0]
        finished += not found[0]
        for name, memory in expected[1].memories.items() if not found[0] else ():
            assert np.array_equal(found[1].memories[name], memory), name
    assert finished or "+ b]" in semantics


def other_data(state: State, seed: int) -> State:
    """The same registers and control memories with other data: what is remembered of addresses holds, of data it must not."""
    found, rng = state.copy(), np.random.default_rng(seed)
    for name, array in found.memories.items():
        if not state.machine.memory[name].control:
            array[:] = rng.integers(0, 256, array.shape, np.uint8)
    return found


def code_of(engine: Callable[[Program, State, Ints], None], program: Program, state: State) -> str:
    """The code of the error that a program ends with, if there is one."""
    try:
        engine(program, state, issue_order(program))
    except UserError as error:
        return error.diagnostics[0].code
    return ""


@pytest.mark.drawn(10)
@pytest.mark.parametrize("semantics", list(SEMANTICS.values()), ids=list(SEMANTICS))
def test_repeated_instructions_read_the_data_that_is_there(semantics: str) -> None:
    machine = tiny(semantics)
    rng = np.random.default_rng(len(semantics))
    for seed in range(3):
        sets = [word(1, m=seed), word(1, b=1, m=-seed)]
        one, two = (word(0, int(rng.integers(-4, 4)), int(rng.integers(0, 4)), int(rng.integers(1, 9)), int(rng.integers(-99, 99))) for _ in range(2))
        program = decode(machine, streams([*sets, one, two, one, word(1, m=7), one, two], [*sets, one, one]))
        first = random_state(machine, seed)
        for state, times in ((first, 2), (other_data(first, 2), 1)):
            expected = state.copy()
            code = code_of(reference.run, program, expected)
            for _ in range(times):
                found = state.copy()
                assert code_of(numpy_engine.run, program, found) == code
                for name, memory in expected.memories.items() if not code else ():
                    assert np.array_equal(found.memories[name], memory), name


def vendor_program(folder: Path, name: str) -> Program:
    data = b"".join(int(number, 16).to_bytes(4, "little") for number in (folder / f"{name}.hex").read_text().split())
    return decode(load_machine("dpuv3"), [data])


def vendor_result(folder: Path, name: str, side: int) -> tuple[NDArray[np.int8], dict[str, NDArray[np.int8]]]:
    """What the program makes of images 0, 1, 0, 1: [image, side, side, 64]; and the arrays of the vendor's file."""
    program, result, params = vendor_program(folder, name), 1 << 24, 1 << 28
    with np.load(folder / "conv1_pool1_golden.npz") as file:
        golden = {key: file[key] for key in file}
    state = new_state(program.machine)
    pixels = np.zeros((224, 224, 4, 16), np.int8)
    pixels[..., :3] = golden["input_nhwc"][[0, 1, 0, 1]].transpose(1, 2, 0, 3)
    for offset, content in ((0, pixels), (params, golden["params_plain"])):
        data = content.reshape(-1).view(np.uint8)
        state.memories["ddr"][0, offset : offset + data.size] = data
    state.host["base"][0] = [0, result, 1 << 27, params]
    run(program, state, issue_order(program))
    made = state.memories["ddr"][0, result : result + side * side * 256].view(np.int8)
    return made.reshape(side, side, 4, 4, 16).transpose(3, 0, 1, 2, 4).reshape(4, side, side, 64), golden


def test_vendor_convolution_and_pooling(vendor_streams: Path) -> None:
    found, golden = vendor_result(vendor_streams, "conv1_pool1_fused", 56)
    assert found.size == 802_816
    assert np.array_equal(found, golden["golden_nhwc"][[0, 1, 0, 1]])


def test_vendor_convolution_is_a_convolution(vendor_streams: Path) -> None:
    """Weights [group of 16 outputs, kernel width, kernel height, a row of 256 bytes]; bias from the next multiple of 2048, doubled."""
    found, golden = vendor_result(vendor_streams, "conv1_7x7s2", 112)
    program = vendor_program(vendor_streams, "conv1_7x7s2")
    shifts = {program.field(i, "shift_cut") for i in range(len(program)) if program.machine.instructions[int(program.kind[i])].name == "CONVINIT"}
    params, (shift,) = golden["params_plain"], shifts
    o, c = np.mgrid[:16, :3]
    rows = params[: 4 * 49 * 256].reshape(4, 7, 7, 256)[..., c // 2 * 32 + o % 8 * 4 + c % 2 * 2 + o // 8]
    weights = rows.transpose(2, 1, 4, 0, 3).reshape(7 * 7 * 3, 64).astype(np.float64)
    bias = params[51200:51456].copy().view("<i4") >> 1
    padded = np.pad(golden["input_nhwc"], ((0, 0), (3, 3), (3, 3), (0, 0))).astype(np.float64)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (7, 7), (1, 2))[:, :224:2, :224:2].transpose(0, 1, 2, 4, 5, 3)
    sums = np.maximum((windows.reshape(2, 112, 112, -1) @ weights).astype(np.int64) + bias, 0)
    assert np.array_equal(found, np.minimum((sums + (1 << shift - 1)) >> shift, 127)[[0, 1, 0, 1]])
