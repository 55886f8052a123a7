"""Gemmini against its own functional model, which ran the programs of tests/data/gemmini_golden, and loops against their small commands."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.small_machines import small_machine
from tests.target_runs import timed
from toolchain.analysis.checks import check_program
from toolchain.analysis.state import State, new_state
from toolchain.emulator import native, numpy_engine, reference
from toolchain.isa.assembly import assemble, disassemble
from toolchain.isa.decode import decode
from toolchain.isa.program import Ints, Program
from toolchain.spec.errors import Source, UserError
from toolchain.spec.model import Machine

Engine = Callable[[Program, State, Ints], None]
GOLDEN = sorted((Path(__file__).resolve().parents[1] / "data" / "gemmini_golden").glob("*.npz"))
FAST: dict[str, Engine] = {"numpy": numpy_engine.run} | ({"native": native.run} if native.available() else {})
SHORT = [path for path in GOLDEN if path.stem in (
    "gelu_01", "layernorm_00", "matmul_os_05", "matmul_ws_bt_00", "moves_02", "pixels_02", "pool_acc_02", "pool_spad_01", "resadd_03",
    "softmax_02", "strides_00")]  # fmt: skip
LONG = ("numpy", "loop_ws_00")
"""Takes ten times as long in numpy as any other program; loop_ws_05 is of its kind."""
RUNS = [
    pytest.param(name, path, id=f"{name}-{path.stem}", marks=pytest.mark.nightly if (name, path.stem) == LONG else ())
    for name in FAST
    for path in GOLDEN
    if name == "native" or path.stem[-1] in "05"
]
IDENTITY = "0x3f800000"


@pytest.fixture(scope="module")
def machine() -> Machine:
    return small_machine("gemmini")


def executed(machine: Machine, program: Program, dram: NDArray[np.uint8], engine: Engine) -> NDArray[np.uint8]:
    """What the program leaves of the first bytes of DRAM."""
    state = new_state(machine)
    state.memories["dram"][0, : len(dram)] = dram
    engine(program, state, check_program(program, state).order)
    return state.memories["dram"][0, : len(dram)]


def check_golden(machine: Machine, path: Path, engine: Engine) -> None:
    with np.load(path) as data:
        program = decode(machine, [data["commands"].astype("<u8").tobytes()])
        np.testing.assert_array_equal(executed(machine, program, data["dram_before"], engine), data["dram_after"])


def test_there_are_64_programs() -> None:
    assert len(GOLDEN) == 64


@pytest.mark.drawn(24)
@pytest.mark.parametrize(("engine", "path"), RUNS)
def test_programs_of_the_functional_model(machine: Machine, path: Path, engine: str) -> None:
    check_golden(machine, path, FAST[engine])


@pytest.mark.parametrize("path", SHORT, ids=lambda path: path.stem)
def test_programs_of_the_functional_model_on_the_reference_engine(machine: Machine, path: Path) -> None:
    check_golden(machine, path, reference.run)


@pytest.mark.parametrize("path", SHORT, ids=lambda path: path.stem)
def test_assembly_of_real_programs_gives_their_bytes(machine: Machine, path: Path) -> None:
    with np.load(path) as data:
        code = data["commands"].astype("<u8").tobytes()
    text = disassemble(decode(machine, [code]))
    assert assemble(machine, Source("a.asm", text)).streams == (code,)


SETUP = """
CONFIG_EX dataflow=ws
CONFIG_MVIN id=0 stride=64
CONFIG_MVIN id=1 stride=48
CONFIG_MVIN id=2 stride=192
"""
LOOP = """
LOOP minor=1 rs1=0x500030006 rs2=0x200030002
LOOP minor=2 rs1=64 rs2=4096
LOOP minor=3 rs1=16384 rs2=32768
LOOP minor=4 rs1=64 rs2=48
LOOP minor=5 rs1=48 rs2=48
LOOP_WS accumulate=1 activation=%s
"""
NORMS = {
    "layer_norm": ("CONFIG_MVOUT activation=layer_norm stride=48 scale=0x41a00000\nCONFIG_NORM id=0\n", ((1, 2), (3, 4), (0, 0))),
    "softmax": (
        (
            f"CONFIG_MVOUT stride=48 scale={IDENTITY}\n"
            "CONFIG_NORM id=0 softmax=1 constant=13000 qb=25000 qc=260000000\n"
            "CONFIG_NORM id=0 softmax=1 inverse=1 constant=5 qb=25000 qc=260000000\n"
        ),
        ((5, 5), (6, 7), (0, 0)),
    ),
}


def small_commands(steps: tuple[tuple[int, int], ...]) -> str:
    """The loop above, two by three by two tiles, of which the last lack 6 rows, 3 columns and 5 of the depth, command by command."""
    rows, columns, depth = (16, 10), (16, 16, 13), (16, 11)
    d = [(16384 + (i * 48 * 16 + j * 16) * 4, (i * 3 + j) * 16, rows[i], columns[j]) for i in range(2) for j in range(3)]
    lines = [f"MVIN3 address={at} to_acc=1 row={row} rows={high} columns={wide}" for at, row, high, wide in d]
    a = [(64 + i * 64 * 16 + k * 16, (i * 2 + k) * 16, rows[i], depth[k]) for i in range(2) for k in range(2)]
    lines += [f"MVIN minor=2 address={at} row={row} rows={high} columns={wide}" for at, row, high, wide in a]
    for k in range(2):
        for j in range(3):
            lines.append(f"MVIN minor=1 address={4096 + k * 48 * 16 + j * 16} row={4096 + (k * 3 + j) * 16} rows={depth[k]} columns={columns[j]}")
            for i in range(2):
                to = 3 << 30 | (i * 3 + j) * 16
                lines.append(
                    f"PRELOAD b={4096 + (k * 3 + j) * 16} b_rows={depth[k]} b_columns={columns[j]} c={to} c_rows={rows[i]} c_columns={columns[j]}"
                )
                lines.append(f"COMPUTE_PRELOADED a={(i * 2 + k) * 16} a_rows={rows[i]} a_columns={depth[k]}")
    for row in range(26):
        lines.append(f"CONFIG_NORM id={row % 4} id_only=1")
        for first, last in steps:
            for j in range(3):
                at = f"address={32768 + row * 48 + j * 16} row={(row // 16 * 3 + j) * 16 + row % 16} gather={last if j == 2 else first}"
                lines.append(f"MVOUT {at} from_acc=1 rows=1 columns={columns[j]}")
    return "\n".join(lines)


@pytest.mark.parametrize("name", NORMS)
def test_a_loop_with_statistics_is_the_loop_of_its_small_commands(machine: Machine, name: str) -> None:
    config, steps = NORMS[name]
    dram = np.zeros(40000, np.uint8)
    rng = np.random.default_rng(5)
    dram[64:16384] = rng.integers(-20, 20, 16320).astype(np.int8).view(np.uint8)
    dram[16384:32768] = rng.integers(-3000, 3000, 4096).astype("<i4").view(np.uint8)
    loop, small = (assemble(machine, Source("a.asm", SETUP + config + rest)) for rest in (LOOP % name, small_commands(steps)))
    expected = executed(machine, small, dram, native.run if native.available() else numpy_engine.run)
    assert (expected[32768:34000].view(np.int8) != 0).sum() > 100
    for engine in FAST.values():
        np.testing.assert_array_equal(executed(machine, loop, dram, engine), expected)


def activation(machine: Machine, configs: str) -> int:
    """What an accumulator of -7, and 100 beside it, becomes."""
    acc = "row=0 rows=1 columns=2"
    text = f"CONFIG_MVIN id=0 stride=64\nMVIN minor=2 address=64 to_acc=1 {acc}\n{configs}\nMVOUT address=128 from_acc=1 {acc}\n"
    dram = np.zeros(256, np.uint8)
    dram[64:72] = np.array([-7, 100], "<i4").view(np.uint8)
    return int(executed(machine, assemble(machine, Source("a.asm", text)), dram, numpy_engine.run)[128:129].view(np.int8)[0])


def test_softmax_stays_until_another_activation_is_chosen(machine: Machine) -> None:
    relu, none, softmax = "CONFIG_MVOUT activation=relu stride=64\n", "CONFIG_MVOUT stride=64\n", "CONFIG_NORM id=0 softmax=1 qc=64\n"
    share = "CONFIG_NORM id=0 softmax=1 qc=64\nMVOUT address=128 from_acc=1 row=0 rows=1 columns=2 gather=max\n"
    share += "MVOUT address=128 from_acc=1 row=0 rows=1 columns=2 gather=share\n"
    assert activation(machine, none) == -7
    assert activation(machine, relu) == 0
    assert activation(machine, none + share) == 126  # 127 * 11513 / (11513 + 64)
    assert activation(machine, none + share + none) == 126
    assert activation(machine, relu + softmax.replace("softmax=1", "") + none) == -7
    assert activation(machine, none + share + relu + none) == -7


def test_commands_that_there_are_not(machine: Machine) -> None:
    for words in ((22, 0, 0), (15, 0, 0), (0, 5 << 3 | 1, 0)):
        with pytest.raises(UserError, match="E040"):
            decode(machine, [np.array(words, "<u8").tobytes()])


def test_moves_overlap_products_and_the_host_bounds_the_rate(machine: Machine) -> None:
    lines = [f"MVIN minor=2 address={256 * n + 64} row={16 * n} rows=16 columns=16" for n in range(8)]
    lines += [
        f"PRELOAD b={16 * n} b_rows=16 b_columns=16 c=0x80000000 c_rows=16 c_columns=16\nCOMPUTE_PRELOADED a=0 a_rows=16 a_columns=16"
        for n in range(8)
    ]
    text = "CONFIG_EX dataflow=ws\nCONFIG_MVIN id=0 stride=16\n" + "\n".join(lines)
    cycles = timed(assemble(machine, Source("a.asm", text))).cycles
    assert 8 * 16 + 40 + 16 + 32 <= cycles < 8 * 16 + 8 * 4 + 40 + 16 + 32 + 16
