import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.tiny_machine import stream, streams, tiny, word
from toolchain.analysis.order import issue_order
from toolchain.analysis.state import State, new_state
from toolchain.emulator.reference.engine import run
from toolchain.isa.decode import decode
from toolchain.isa.program import Ints, Program
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine

GOLDEN = sorted((Path(__file__).parents[2] / "data" / "vta_golden").glob("*.npz"))
PAGE = 4096
Engine = Callable[[Program, State, Ints], None]


def vta_result(path: Path, order_of: Callable[[Program], Ints], engine: Engine = run) -> bool:
    """Whether a golden program leaves the golden memory. The image starts on the page that nothing touches."""
    machine = load_machine("vta")
    with np.load(path) as data:
        assert json.loads(str(data["meta"]))["config"]
        program = decode(machine, [data["insns"].tobytes()])
        state, size = new_state(machine), data["dram_before"].size
        state.memories["dram"][0, :size] = data["dram_before"].ravel()
        engine(program, state, order_of(program))
        after: bool = np.array_equal(state.memories["dram"][0, :size], data["dram_after"].ravel())
    return after


def in_text_order(program: Program) -> Ints:
    return np.arange(len(program))


@pytest.mark.drawn(8)
@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.stem)
def test_vta_goldens_in_queue_order(path: Path) -> None:
    assert vta_result(path, issue_order)


@pytest.mark.parametrize("name", ["r12_shuffled", "r13_shuffled"])
def test_program_order_across_units_means_nothing(name: str) -> None:
    path = next(p for p in GOLDEN if p.stem == name)
    assert not vta_result(path, in_text_order)


def test_all_goldens_are_here() -> None:
    assert len(GOLDEN) == 20


def new_nothing(_: State) -> None:
    """Leaves a state as it is."""


def execute(machine: Machine, words: list[bytes], prepare: Callable[[State], None] = new_nothing, second: list[bytes] | None = None) -> State:
    program = decode(machine, streams(words, second or []))
    state = new_state(machine)
    prepare(state)
    run(program, state, issue_order(program))
    return state


def row(state: State, name: str, instance: int, kind: str = "i1") -> list[int]:
    return np.frombuffer(state.memories[name][instance].tobytes(), "<" + kind).tolist()


def ramp(name: str) -> Callable[[State], None]:
    def prepare(state: State) -> None:
        shape = state.memories[name].shape
        state.memories[name][:] = np.arange(shape[0] * shape[1]).reshape(shape) % 251

    return prepare


def test_overflow_is_what_the_memory_declares() -> None:
    state = execute(tiny("acc[0][o] = (1 << 31) + m\nsat[1][o] = m\n"), [word(0, m=-300)])
    assert row(state, "acc", 0, "i4")[:4] == [2**31 - 300] * 4
    assert row(state, "sat", 0)[4:8] == [-128] * 4


def test_a_temporary_wraps_and_saturates() -> None:
    text = "w[o]: wrap(i8) = m\nw[o] += 1\ns[o]: saturate(i8) = m\ns[o] += 1\nacc[0][o] = w[o]\nacc[1][o] = s[o]\n"
    state = execute(tiny(text), [word(0, m=127)])
    assert row(state, "acc", 0, "i4")[:8] == [-128] * 4 + [127] * 4


def test_replicas_have_their_own_memory_and_share_the_rest() -> None:
    state = execute(tiny("feat[0, 0] = dram.row[16 * way + 64 * core]\n"), [word(0)], ramp("dram"), [word(0)])
    assert [row(state, "feat", i)[:4] for i in range(4)] == [[base, base + 1, base + 2, base + 3] for base in (0, 16, 64, 80)]


def test_a_shared_write_happens_once() -> None:
    state = execute(tiny("one[0] = 5\n"), [word(0)])
    assert row(state, "one", 0, "i2")[0] == 5
    counted = execute(tiny("for i in range(n):\n    loop[0][o] = clip(loop[0][o] + 1)\n"), [word(0, n=3)])
    assert row(counted, "loop", 0)[:4] == [3] * 4


def test_replicas_may_take_different_branches_and_bounds() -> None:
    state = execute(tiny("if way == 1:\n    sat[0][o] = 7\nfor i in range(way + 1):\n    acc[i][o] = 1\n"), [word(0)])
    assert [row(state, "sat", i)[0] for i in range(4)] == [0, 7, 0, 0]
    assert [sum(row(state, "acc", i, "i4")) for i in range(2)] == [4, 8]


@pytest.mark.parametrize(("bank", "address", "start"), [(0, 0, 0), (0, 8, 0), (0, -1, 28), (0, 17, 4), (1, 0, 32), (1, 5, 36), (1, -3, 36)])
def test_rings_turn_round_by_the_depth_of_their_bank(bank: int, address: int, start: int) -> None:
    state = execute(tiny("feat[b, a] = dram.row[4]\n"), [word(0, a=address, b=bank)], ramp("dram"))
    expected = np.zeros(48, np.int8)
    expected[start : start + 4] = [4, 5, 6, 7]
    assert row(state, "feat", 0) == expected.tolist()


def test_a_view_may_run_past_the_end_of_a_ring() -> None:
    state = execute(tiny("loop.wide[a][o] = 3\n"), [word(0, a=-4)])
    assert row(state, "loop", 0) == [3] * 4 + [0] * 8 + [3] * 4


def test_another_instance_of_a_level() -> None:
    state = execute(tiny("par.core(1 - core)[0][r, c] = core + 1\n"), [word(0)], second=[word(0)])
    assert [row(state, "par", i)[0] for i in range(2)] == [2, 1]


def test_an_instance_that_is_not_there() -> None:
    with pytest.raises(UserError, match=r"#0 OP at 0x0 of stream 0: E0701 there is no core 2"):
        execute(tiny("par.core(2)[0][r, c] = 1\n"), [word(0)])


def test_maps_reorder_lanes() -> None:
    state = execute(tiny("par[0][r, c] = par.turned[1][c, r]\n"), [word(0)], ramp("par"))
    assert row(state, "par", 0)[:12] == row(state, "par", 0)[12:24]


def test_records_and_control_scalars() -> None:
    def prepare(state: State) -> None:
        state.memories["ctl"][0, 1] = 0b11110_101
        state.memories["num"][0, 2:4] = np.frombuffer(np.int16(-7).tobytes(), np.uint8)

    state = execute(tiny("k = ctl[b]\nacc[0][o] = k.lo * 100 + k.hi\nacc[1][o] = num[1]\n"), [word(0, b=1)], prepare)
    assert row(state, "acc", 0, "i4")[:8] == [498] * 4 + [-7] * 4


def test_registers_keep_the_fields_of_an_earlier_instruction() -> None:
    state = execute(tiny("acc[0][o] = cfg[b % 2].m + low8(arg[1])\n"), [word(1, b=1, m=-9), word(0, b=1)], lambda s: s.host["arg"].fill(50))
    assert row(state, "acc", 0, "i4")[0] == 41


def test_a_register_that_nothing_has_set() -> None:
    with pytest.raises(UserError, match=r"#1 OP at 0x4 of stream 0: E0702 cfg\[0\] is read before any SET has set it"):
        execute(tiny("acc[0][o] = cfg[b].m\n"), [word(1, b=1), word(0, b=0)])


def test_whole_elements_are_copied_as_they_are() -> None:
    state = execute(tiny("ctl[a] = dram.rec[b] if b > 3 else 0\n"), [word(0, a=0, b=9), word(0, a=1, b=3)], ramp("dram"))
    assert row(state, "ctl", 0, "u1") == [9, 0, 0, 0]


def test_the_untaken_side_may_be_illegal() -> None:
    state = execute(tiny("acc[0][o] = acc[b][o] if b < 4 else 11\n"), [word(0, b=60)])
    assert row(state, "acc", 0, "i4")[0] == 11


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("acc[b][o] = 1\n", r"acc\[60\] is outside 'acc', which holds 64 bytes"),
        ("acc[a][o] = 1\n", r"acc\[-3\] is outside 'acc'"),
        ("feat[b, 0][o] = 1\n", r"feat\[60, 0\] is outside 'feat', which has 2 banks"),
        ("sat[0][o] = dram.row[b + 193][o]\n", r"dram.row\[253\] is outside 'dram'"),
        ("acc[0][o] = cfg[b].m\n", r"cfg\[60\] is outside 'cfg', which holds 2"),
    ],
)
def test_accesses_outside_a_memory(text: str, message: str) -> None:
    with pytest.raises(UserError, match=r"#0 OP at 0x0 of stream 0: E0701 " + message):
        execute(tiny(text), [word(0, a=-3, b=60)])


def test_a_statement_reads_everything_before_it_writes() -> None:
    state = execute(tiny("acc[0][o] = acc[0][3] + 1\n"), [word(0)], lambda s: s.memories["acc"].fill(1))
    assert len(set(row(state, "acc", 0, "i4")[:4])) == 1


def test_iterations_see_what_earlier_ones_wrote() -> None:
    state = execute(tiny("for i in range(1, n):\n    acc[i % 4][o] = acc[(i - 1) % 4][o] + 1\n"), [word(0, n=6)])
    assert row(state, "acc", 0, "i4")[::4] == [4, 5, 2, 3]


def test_running_maximum_of_a_variable() -> None:
    state = execute(tiny("top = 0\nfor i in range(n):\n    top = max(top, i * (5 - i))\nacc[0][o] = top\n"), [word(0, n=6)])
    assert row(state, "acc", 0, "i4")[0] == 6


def test_reductions() -> None:
    text = "acc[0][o] = sum(par[0][r, o])\nacc[1][o] = reduce_max(par[0][r, o])\nacc[2][o] = dot(par[0][r, o], par[0][r, c])\n"
    state = execute(tiny(text), [word(0)], lambda s: s.memories["par"].__setitem__((0, slice(0, 12)), np.arange(12)))
    assert row(state, "acc", 0, "i4")[:8] == [12, 15, 18, 21, 8, 9, 10, 11]
    assert row(state, "acc", 0, "i4")[8:12] == [sum((4 * r + o) * (4 * r + c) for r in range(3) for c in range(4)) for o in range(4)]


def test_a_table_is_looked_up_lane_by_lane() -> None:
    text = "acc[0][o] = lookup(par[0][1, c], 3 - o)\nacc[1][o] = lookup(par[0][r, o], acc[0][o] % 3)\n"
    state = execute(tiny(text), [word(0)], lambda s: s.memories["par"].__setitem__((0, slice(0, 12)), np.arange(12)))
    assert row(state, "acc", 0, "i4")[:8] == [7, 6, 5, 4, 4 * (7 % 3), 1 + 4 * (6 % 3), 2 + 4 * (5 % 3), 3 + 4 * (4 % 3)]


def test_a_program_of_only_its_end() -> None:
    machine = tiny("pass\n")
    program = decode(machine, [stream(), stream()])
    state = new_state(machine)
    run(program, state, issue_order(program))
    assert not any(memory.any() for memory in state.memories.values())
