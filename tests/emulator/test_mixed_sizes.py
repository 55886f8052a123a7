"""Thousands of tiny instructions among a few enormous ones: the same on every engine, and as a plain sum would have it."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.workloads import Rows
from tests.random_programs import random_state
from toolchain.analysis.order import issue_order
from toolchain.analysis.state import State
from toolchain.emulator import native, numpy_engine
from toolchain.isa.program import Ints, Program
from toolchain.spec.load import load_machine

ENGINES = {"numpy": numpy_engine.run} | ({"C": native.run} if native.available() else {})
MACHINE = load_machine("vta", overrides={"LOG_DRAM": "16"})
LARGE = {"uop_end": 16, "iter_out": 128, "iter_in": 64, "dst_factor_out": 16, "src_factor_in": 7, "src_factor_out": 3, "wgt_factor_in": 2}
"""2 million products of 16 numbers each."""


def mixed() -> Program:
    rows = Rows(MACHINE)
    for number in range(2400):
        at = {"uop_bgn": 16 + number % 1024, "uop_end": 17 + number % 1024, "iter_out": 1, "iter_in": 1}
        rows.add("GEMM", **at) if number % 3 else rows.add("ALU", alu_opcode=2, use_imm=number % 2, imm=number, **at)
        if number % 800 == 400:
            rows.add("GEMM", **LARGE)
    rows.add("FINISH")
    return rows.program()


def start() -> State:
    """The first 16 micro-ops walk, so that a large product adds to every accumulator; the others are random."""
    state = random_state(MACHINE, 5)
    first = np.arange(16)
    state.memories["uop"][0, :64] = (first | first * 5 << 11 | first << 22).astype("<u4").view(np.uint8)
    return state


def accumulators(state: State) -> NDArray[np.int32]:
    return state.memories["acc"][0].view("<i4").reshape(-1, 16)


def expected(state: State, program: Program) -> NDArray[np.int32]:
    """The accumulators, one instruction after the other, each a sum over its micro-ops and loops."""
    words = state.memories["uop"][0].view("<u4").astype(np.int64)
    dst, src, wgt = words & 2047, words >> 11 & 2047, words >> 22
    inp, acc = state.memories["inp"][0].view(np.int8).reshape(-1, 16).astype(np.float64), accumulators(state).astype(np.int64)
    tiles = state.memories["wgt"][0].view(np.int8).reshape(-1, 16, 16).astype(np.float64)
    for index in range(len(program) - 1):
        field = {name: program.field(index, name) for name in program.columns[int(program.kind[index])]}
        u = slice(field["uop_bgn"], field["uop_end"])
        i, j = np.arange(field["iter_out"])[:, None, None], np.arange(field["iter_in"])[None, :, None]
        d, s = (k[u] + i * field[f"{n}_factor_out"] + j * field[f"{n}_factor_in"] for n, k in (("dst", dst), ("src", src)))
        if "alu_opcode" in field:
            acc[d[0, 0, 0]] += field["imm"] if field["use_imm"] else acc[s[0, 0, 0]]
        else:
            w = wgt[u] + i * field["wgt_factor_out"] + j * field["wgt_factor_in"]
            d, s, w = (x.reshape(-1) for x in np.broadcast_arrays(d, s, w))
            np.add.at(acc, d, np.einsum("noc,nc->no", tiles[w], inp[s]).astype(np.int64))
        acc = acc.astype(np.int32).astype(np.int64)
    return acc.astype("<i4")


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_tiny_and_enormous_instructions_mix(engine: Callable[[Program, State, Ints], None]) -> None:
    program, state = mixed(), start()
    wanted = expected(state, program)
    engine(program, state, issue_order(program))
    assert np.array_equal(accumulators(state), wanted)
